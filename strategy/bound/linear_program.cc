#include "strategy/bound/linear_program.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <CoinPackedVector.hpp>

namespace motley {

struct LinearProgram::Solver {
  ClpSimplex clp;
  std::vector<double> cost, column_lower, column_upper;
  // Rows that Clp does not have yet.
  CoinPackedMatrix rows{false, 0.0, 0.0};
  std::vector<double> row_lower, row_upper;
  int row_count = 0;
  bool loaded = false;
};

LinearProgram::LinearProgram() : solver_(std::make_unique<Solver>()) {
  solver_->clp.setLogLevel(0);
  // The optimum of a program that Clp has scaled may have multipliers that are wrong for the program as it is.
  solver_->clp.scaling(0);
}
LinearProgram::~LinearProgram() = default;

int LinearProgram::add_column(double cost, double lower, double upper) {
  solver_->cost.push_back(cost);
  solver_->column_lower.push_back(lower);
  solver_->column_upper.push_back(upper);
  return static_cast<int>(solver_->cost.size()) - 1;
}

int LinearProgram::add_row(std::span<const Term> terms, double lower, double upper) {
  CoinPackedVector row;
  row.reserve(static_cast<int>(terms.size()));
  for (const Term& term : terms) row.insert(term.column, term.factor);
  solver_->rows.setDimensions(-1, static_cast<int>(solver_->cost.size()));
  solver_->rows.appendRow(row);
  solver_->row_lower.push_back(lower);
  solver_->row_upper.push_back(upper);
  return solver_->row_count++;
}

bool LinearProgram::solve() {
  ClpSimplex& clp = solver_->clp;
  if (!solver_->loaded) {
    clp.loadProblem(solver_->rows, solver_->column_lower.data(), solver_->column_upper.data(), solver_->cost.data(),
                    solver_->row_lower.data(), solver_->row_upper.data());
    solver_->loaded = true;
  } else if (!solver_->row_lower.empty()) {
    const CoinPackedMatrix& rows = solver_->rows;
    clp.addRows(static_cast<int>(solver_->row_lower.size()), solver_->row_lower.data(), solver_->row_upper.data(),
                rows.getVectorStarts(), rows.getIndices(), rows.getElements());
  }
  solver_->rows = CoinPackedMatrix(false, 0.0, 0.0);
  solver_->row_lower.clear();
  solver_->row_upper.clear();
  clp.dual();
  return clp.isProvenOptimal();
}

double LinearProgram::value(int column) const { return solver_->clp.getColSolution()[column]; }
double LinearProgram::dual(int row) const { return solver_->clp.getRowPrice()[row]; }

}  // namespace motley
