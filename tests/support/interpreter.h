#pragma once

// Executes a deployment of a chain_graph on plain arrays of doubles, all devices in one thread: an oracle for what the
// compiler makes. Which of the instructions that may run next does so is drawn at random, from streams of very
// different speeds (a stream keeps its order, a collective waits for its members), so that what an order merely happens
// to get right shows.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/deployment.h"
#include "graph/graph.h"

namespace motley::support {

using Array = std::vector<double>;

class Interpreter {
 public:
  // Both must outlive the interpreter. Parameters start as `initial_value` of their names; states at 0.
  Interpreter(const Graph& graph, const Deployment& deployment, std::uint32_t seed);
  ~Interpreter();

  // One iteration on x [batch, width]; the whole loss.
  double step(const Array& x);
  // The parameter on a device that holds it; empty when it holds none.
  Array parameter(const std::string& name, DeviceIndex device) const;
  void set_parameter(const std::string& name, const Array& value);  // on all devices that hold it

  static Array initial_value(const std::string& name, std::size_t size);

 private:
  struct Machine;
  std::vector<Machine> machines_;
  const Graph& graph_;
  const Deployment& deployment_;
  std::uint32_t seed_;
};

}  // namespace motley::support
