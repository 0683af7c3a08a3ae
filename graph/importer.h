#pragma once

// The walk over an exported program that graph/import.h describes.

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/aliasing.h"
#include "graph/program_reader.h"
#include "graph/pt2_file.h"

namespace motley {

class Importer {
 public:
  explicit Importer(const Pt2File& file);
  Graph run();

 private:
  using Handle = Aliasing::Handle;

  // A graph and the names in it: the program's own, or one inside a higher-order op.
  struct Scope {
    const schema::Graph& graph;
    std::unordered_map<std::string, Handle> values;
    bool gradients = true;
  };

  // A node on its way to become an op.
  struct Step {
    const schema::Node& node;
    Scope& scope;
    Call call;
    std::vector<Handle> inputs;        // beside call.inputs
    std::vector<std::string> outputs;  // names; empty for None
    std::vector<std::optional<TensorMeta>> metas;
  };

  void bind_inputs(Scope& scope);
  Handle bind_state(const std::string& name, const std::string& argument, TensorRole role, const Scope& scope);
  TensorId find_loss(Scope& scope);
  void write_mutated_buffers(Scope& scope);

  void import_nodes(Scope& scope);
  void import_node(const schema::Node& node, Scope& scope);
  void import_call(Step& step);
  void import_in_place(Step& step);
  void import_copy(Step& step);
  void import_norm(Step& step);
  bool import_functional_norm(Step& step);
  void inline_graph(const schema::Node& node, Scope& scope);
  void bind(Step& step, std::size_t output, Handle handle);
  // The value that copying `source` into memory of `target`'s shape and dtype gives it.
  TensorId copied(const Call& context, const TensorMeta& target, const Handle& source);

  const Pt2File& file_;
  const schema::ExportedProgram& program_;
  ProgramReader reader_;
  ForwardBuilder builder_;
  Aliasing aliasing_;
  std::unordered_map<std::string, int> uses_;             // of the program's own values, by its nodes and results
  std::unordered_map<std::string, std::string> buffers_;  // the buffer's name: its argument
  std::unordered_set<TensorId> mutated_;  // buffers that a functional program gives a new value in the end
  std::vector<std::pair<StoredTensor, TensorId>> stored_;  // state that is bound, to find tied weights
  std::vector<TensorId> inputs_;
};

}  // namespace motley
