#include "graph/aliasing.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "graph/op_traits.h"
#include "graph/scatter.h"
#include "graph/strides.h"

namespace motley {

struct Aliasing::Storage {
  TensorId value = kNone;
  bool is_state = false;
  std::string read_only;  // not empty: what it is that must not be written
  int generation = 0;     // writes so far
};

struct Aliasing::View {
  std::shared_ptr<View> parent;
  Call call;  // the view op; its first input is the parent's value at `generation`
  std::vector<TensorMeta> outputs;
  std::size_t place = 0;  // which output
  std::string name;
  TensorId value = kNone;  // at `generation` of the storage
  int generation = 0;
};

Aliasing::Handle Aliasing::fresh(TensorId value, const TensorMeta& meta) {
  Handle handle;
  handle.storage_ = std::make_shared<Storage>();
  handle.storage_->value = value;
  handle.meta_ = meta;
  return handle;
}

Aliasing::Handle Aliasing::state(TensorId buffer) {
  Handle handle = fresh(buffer, builder_.meta(buffer));
  handle.storage_->is_state = true;
  return handle;
}

Aliasing::Handle Aliasing::read_only(TensorId tensor, const std::string& what) {
  Handle handle = fresh(tensor, builder_.meta(tensor));
  handle.storage_->read_only = what;
  return handle;
}

std::vector<Aliasing::Handle> Aliasing::view(const Handle& base, const Call& call,
                                             const std::vector<TensorMeta>& outputs,
                                             const std::vector<std::string>& output_names) {
  const std::vector<TensorId> values =
      builder_.add(call, std::vector<std::optional<TensorMeta>>(outputs.begin(), outputs.end()), output_names);
  std::vector<Handle> handles;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Handle handle;
    handle.storage_ = base.storage_;
    handle.meta_ = outputs[i];
    handle.view_ = std::make_shared<View>(
        View{base.view_, call, outputs, i, output_names[i], values[i], base.storage_->generation});
    handles.push_back(std::move(handle));
  }
  return handles;
}

TensorId Aliasing::read(const Handle& handle) { return read(*handle.storage_, handle.view_); }

TensorId Aliasing::read(const Storage& storage, const std::shared_ptr<View>& view) {
  if (!view) return storage.value;
  if (view->generation == storage.generation) return view->value;
  Call again = view->call;
  again.inputs[0] = read(storage, view->parent);
  // The new value may be laid out otherwise than the one that the program took its view of.
  const std::string_view base = base_name(again.target);
  if (base == "view" || base == "_unsafe_view" || base == "_reshape_alias") {
    const Shape& shape = view->outputs[view->place].shape;
    again.target = "aten::reshape.default";
    again.arguments = {{"self", InputRef{0}}, {"shape", std::vector<BatchExpr>(shape.begin(), shape.end())}};
  }
  std::vector<std::optional<TensorMeta>> outputs(view->outputs.size());
  outputs[view->place] = view->outputs[view->place];
  const std::vector<std::string> names(view->outputs.size(), view->name);
  view->value = builder_.add(again, outputs, names)[view->place];
  view->generation = storage.generation;
  return view->value;
}

// A later view of the whole value counts on the strides that the program gave its memory.
TensorId Aliasing::as_stored(const Handle& handle, TensorId value, const Call& context) {
  const TensorMeta& wanted = handle.meta_;
  if (builder_.meta(value).strides == wanted.strides || !is_dense(wanted.shape, wanted.strides)) return value;
  if (is_dense(wanted.shape, builder_.meta(value).strides)) return value;
  Call call = context;
  call.target = "aten::clone.default";
  call.arguments.clear();
  call.inputs.clear();
  call.add("self", value);
  call.arguments.push_back({"memory_format", MemoryFormat::kContiguous});
  return builder_.add(call, wanted);
}

void Aliasing::write(const Handle& handle, TensorId value, const Call& context) {
  Storage& storage = *handle.storage_;
  if (!storage.read_only.empty()) {
    throw Error(ErrorKind::kUnsupported,
                "the model's forward writes " + storage.read_only + " in place: compute a new tensor instead");
  }
  TensorId whole = value;
  for (std::shared_ptr<View> view = handle.view_; view; view = view->parent) {
    whole = scatter(*view, read(storage, view->parent), whole, context);
  }
  if (storage.is_state) {
    Call call = context;
    call.target = "aten::copy_.default";
    call.arguments.clear();
    call.inputs.clear();
    call.add("self", storage.value);
    call.add("src", whole);
    call.writes = {storage.value};
    builder_.add(call, {std::nullopt}, {call.name});
  } else {
    storage.value = handle.view_ ? whole : as_stored(handle, whole, context);
  }
  ++storage.generation;
  if (handle.view_ && !storage.is_state) {
    handle.view_->value = value;
    handle.view_->generation = storage.generation;
  }
}

TensorId Aliasing::scatter(const View& view, TensorId whole, TensorId part, const Call& context) {
  const TensorMeta& target = builder_.meta(whole);
  const TensorMeta meta{target.dtype, target.shape, dense_strides(target.shape)};
  std::optional<Call> call = scatter_call(view.call, view.outputs, view.place, meta.shape, whole, part);
  if (!call) {
    throw Error(ErrorKind::kUnsupported, "the model writes in place through a view made by " + view.call.target +
                                             ", which cannot be undone: compute a new tensor instead");
  }
  call->name = context.name;
  call->source = context.source;
  call->module = context.module;
  call->gradients = context.gradients;
  return builder_.add(*call, meta);
}

TensorId Aliasing::state_of(const Handle& handle) const {
  return handle.storage_->is_state && !handle.view_ ? handle.storage_->value : kNone;
}

void Aliasing::state_written(const Handle& handle) { ++handle.storage_->generation; }

bool Aliasing::is_state(const Handle& handle) const { return handle.storage_->is_state; }

}  // namespace motley
