#pragma once

// Who shares memory with whom while an in-place program becomes a functional one (the idea of PyTorch's
// functionalization pass). A storage holds a value; a handle names all of a storage, or a view of it as the chain of
// view ops that made it. Writing through a handle gives the storage a new value: the view's part scattered back into
// the whole. Reading a handle later replays its views on the value of that time.

#include <memory>
#include <string>
#include <vector>

#include "graph/forward_builder.h"

namespace motley {

class Aliasing {
  struct Storage;
  struct View;

 public:
  // What a name of the exported program stands for. Cheap to copy.
  class Handle {
   public:
    const TensorMeta& meta() const { return meta_; }

   private:
    friend class Aliasing;
    std::shared_ptr<Storage> storage_;
    std::shared_ptr<View> view_;  // null: all of the storage
    TensorMeta meta_;             // what the exported program says of it
  };

  explicit Aliasing(ForwardBuilder& builder) : builder_(builder) {}

  // Memory of its own that holds `value`, a result or an input of the graph.
  Handle fresh(TensorId value, const TensorMeta& meta);
  // ... that holds a buffer: writing it writes the buffer itself.
  Handle state(TensorId buffer);
  // ... that must not be written; `what` names it in the error ("parameter h.0.weight").
  Handle read_only(TensorId tensor, const std::string& what);

  // Output `place` of a view op on `base`. `call` has the base as its first input and is added to the graph.
  std::vector<Handle> view(const Handle& base, const Call& call, const std::vector<TensorMeta>& outputs,
                           const std::vector<std::string>& output_names);

  // The tensor that holds the handle's present value. May add ops, so it comes before the reader's own.
  TensorId read(const Handle& handle);

  // Gives the handle a new value of its shape and dtype. `context` lends name, source and module to ops that it takes.
  // Throws Error(kUnsupported) for views that cannot be written through, and for memory that must not be written.
  void write(const Handle& handle, TensorId value, const Call& context);

  // For ops that write buffers by themselves: the buffer, if the handle is all of one, else kNone.
  TensorId state_of(const Handle& handle) const;
  // Says that such an op has run.
  void state_written(const Handle& handle);
  // Whether the value may change without the graph showing it, so that sharing it instead of copying is wrong.
  bool is_state(const Handle& handle) const;

 private:
  TensorId read(const Storage& storage, const std::shared_ptr<View>& view);
  TensorId scatter(const View& view, TensorId whole, TensorId part, const Call& context);
  TensorId as_stored(const Handle& handle, TensorId value, const Call& context);

  ForwardBuilder& builder_;
};

}  // namespace motley
