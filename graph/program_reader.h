#pragma once

// What an exported program says of its values: sizes as expressions of the batch size, dtypes, arguments, and where in
// the user's model a node comes from.

#include <functional>
#include <string>

#include "graph/export_schema.h"
#include "graph/forward_builder.h"
#include "graph/pt2_file.h"

namespace motley {

class ProgramReader {
 public:
  // Finds the batch size among the sizes of the user's inputs. Throws Error(kInvalidInput), saying how to export, when
  // none or more than one of them is symbolic.
  explicit ProgramReader(const schema::ExportedProgram& program);

  const BatchRange& batch_range() const { return range_; }

  // Each throws Error(kUnsupported) with the expression or dtype that cannot be told; the caller adds node and file.
  BatchExpr size(const schema::SymInt& size) const;
  TensorMeta meta(const schema::Graph& graph, const std::string& tensor) const;
  // The value of an argument. Tensors are taken from `read`, given the exported name, and appended to `call.inputs`.
  ArgumentValue argument(const schema::Graph& graph, const schema::Argument& argument, Call& call,
                         const std::function<TensorId(const std::string&)>& read) const;

 private:
  BatchExpr size(const schema::Graph& graph, const schema::SymIntArgument& argument) const;

  std::string symbol_;
  BatchRange range_;
};

// "torch.ops.aten.add.Tensor" becomes "aten::add.Tensor"; others stay.
std::string target_name(const std::string& exported);
// "model.py:42 in forward": the innermost frame outside PyTorch; empty when the node has no stack trace.
std::string source_of(const schema::Node& node);
// "transformer.h.3.mlp"; empty at the top.
std::string module_of(const schema::Node& node);

}  // namespace motley
