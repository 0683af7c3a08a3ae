#pragma once

// The training graph: one iteration of training as a list of ops over tensors whose shapes are expressions of the batch
// size. It is functional but for state: parameters, buffers and optimizer states are written by the ops that say so.
// Plain values; safe to share between threads once built.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/units.h"
#include "graph/batch_expr.h"

namespace motley {

using TensorId = std::int32_t;  // index into Graph::tensors
using OpId = std::int32_t;      // index into Graph::ops
using GroupId = std::int32_t;   // index into Graph::groups
inline constexpr std::int32_t kNone = -1;

// Numbers reach disk: append, never renumber.
enum class DType : std::uint8_t {
  kFloat32 = 0,
  kFloat16 = 1,
  kBFloat16 = 2,
  kFloat64 = 3,
  kInt64 = 4,
  kInt32 = 5,
  kInt16 = 6,
  kInt8 = 7,
  kUInt8 = 8,
  kBool = 9,
};
Bytes size_of(DType dtype);
bool is_floating(DType dtype);
std::string to_string(DType dtype);  // "f32", "bf16", "i64", "bool", ...

enum class TensorRole : std::uint8_t {
  kInput = 0,  // one batch of data
  kParameter = 1,
  kBuffer = 2,    // state that forward ops may write (batch norm's running mean)
  kConstant = 3,  // stored in the model file, never written
  kOptimizerState = 4,
  kActivation = 5,
  kGradient = 6,
};

// How a tensor meets the batch: what a replica that got b of the B samples holds of it.
struct BatchLayout {
  enum class Kind : std::uint8_t {
    kIndependent = 0,  // the same on every replica (made from parameters and constants alone)
    kSplit = 1,  // dimension `dim` is outer * B * inner with the samples in the middle; a replica holds its samples
    kPartialSum = 2,   // reduced over the batch: the whole is the sum of the replicas' values
    kPartialMean = 3,  // ... is the mean of the replicas' values weighted by their samples
    kMixed = 4,  // depends on the batch in a way that cannot be cut or joined (sorted tokens): never leaves its group
  };
  Kind kind = Kind::kIndependent;
  std::int32_t dim = 0;
  std::int64_t outer = 1;
  bool operator==(const BatchLayout&) const = default;
};

struct Tensor {
  std::string name;  // the model's own name for parameters and buffers ("transformer.wte.weight"), the node's else
  DType dtype = DType::kFloat32;
  Shape shape;
  TensorRole role = TensorRole::kActivation;
  BatchLayout layout;
  OpId producer = kNone;         // the op that makes it; kNone for inputs and state
  TensorId alias_of = kNone;     // a view: the tensor whose storage it shares (never itself a view)
  TensorId gradient_of = kNone;  // for role kGradient: the tensor that this is a gradient, or a part of a gradient, of
  bool requires_gradient = false;
  TensorId state_of = kNone;  // for role kOptimizerState: the parameter

  Bytes bytes(std::int64_t batch) const;
};

// A place among an op's inputs.
struct InputRef {
  std::int32_t index = kNone;  // into Op::inputs; kNone is an absent optional tensor
  bool operator==(const InputRef&) const = default;
};
enum class MemoryFormat : std::uint8_t { kContiguous = 0, kPreserve = 1, kChannelsLast = 2, kChannelsLast3d = 3 };
struct DeviceArgument {
  bool operator==(const DeviceArgument&) const = default;
};  // "the device that runs the op"
struct LayoutArgument {
  bool operator==(const LayoutArgument&) const = default;
};  // strided

// An argument as the op's schema names it. std::monostate is None. Integers are BatchExpr, since any may be symbolic.
using ArgumentValue = std::variant<std::monostate, InputRef, std::vector<InputRef>, BatchExpr, std::vector<BatchExpr>,
                                   double, std::vector<double>, bool, std::vector<bool>, std::string, DType,
                                   MemoryFormat, DeviceArgument, LayoutArgument>;
struct Argument {
  std::string name;
  ArgumentValue value;
};

enum class OpKind : std::uint8_t {
  kForward = 0,         // target run through the dispatcher
  kInputGradient = 1,   // vector-Jacobian product of `forward` for its activations
  kWeightGradient = 2,  // ... for its parameters
  kGradientSum = 3,     // the sum of its inputs: one tensor's gradient from several consumers
  kUpdate = 4,          // optimizer step of one parameter: writes it and its states
};

struct Op {
  OpKind kind = OpKind::kForward;
  std::string name;    // unique; the exported node's name for forward ops, "NAME.dx", "NAME.dw", "NAME.update"
  std::string target;  // "aten::addmm.default"; the optimizer's name for kUpdate
  std::vector<Argument> arguments;  // kForward: in schema order
  // kForward: tensor arguments in order (a tensor may stand twice).
  // kInputGradient/kWeightGradient: first the gradients of the outputs (see gradient_outputs), then the tensors that
  //   autograd saved, so that lifetimes follow from inputs alone.
  // kGradientSum: the parts.  kUpdate: parameter, gradient, states.
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;  // kNone where the model's graph has no use for an output
  // State written in place (buffers; kUpdate: parameter and states). Ops that read or write the same state keep the
  // order in which they stand here, though no tensor may pass between them.
  std::vector<TensorId> writes;
  std::vector<std::int32_t> completes;  // kForward: places in `inputs` whose partial value must be made whole first
  OpId forward = kNone;                 // backward kinds: the op that this is the backward of
  std::vector<std::int32_t>
      gradient_outputs;  // backward kinds: which outputs of `forward` the leading inputs are gradients of
  std::vector<std::int32_t> gradient_inputs;  // backward kinds: which inputs of `forward` the outputs are gradients of
  GroupId group = kNone;  // kUpdate and kGradientSum of a parameter: the group that owns the parameter
  bool is_view = false;   // allocates nothing
  bool random = false;    // draws from the generator (dropout)
  std::string source;     // "model.py:42 in forward", from the exported stack trace; may be empty
  std::string module;     // path of the module that made it ("transformer.h.3.mlp"), for naming groups; may be empty

  bool is_backward() const { return kind == OpKind::kInputGradient || kind == OpKind::kWeightGradient; }
};

// The unit that a strategy decides on: forward ops, with all that belongs to them. Ops joined by a tensor that cannot
// be cut (kMixed, kPartial*) are always in one group.
struct OpGroup {
  std::string name;                  // from the module path of its largest op, for people
  std::vector<OpId> ops;             // forward ops in order
  std::vector<TensorId> parameters;  // owned: each parameter has exactly one owner, the first group that uses it
};

struct OptimizerOptions {
  enum class Kind : std::uint8_t { kSgd = 0, kAdam = 1, kAdamW = 2 };
  Kind kind = Kind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0.0;  // SGD
  double beta1 = 0.9;     // Adam, AdamW
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

struct Graph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;  // in an order that respects data: forward ops, then backward, then updates
  std::vector<OpGroup> groups;
  std::vector<TensorId> inputs;  // in the order of the model's arguments
  TensorId loss = kNone;  // a scalar, kPartialMean or kPartialSum; kMixed if samples are compared with each other:
                          // then its group runs on one device
  std::int64_t min_batch = 1;
  std::int64_t max_batch = 0;  // 0: unbounded
  OptimizerOptions optimizer;
  std::string fingerprint;  // hex SHA-256 of the file's graph, the optimizer and the grouping

  // Consumers of each tensor, by op. Built by finish(); valid until the graph changes.
  std::vector<std::vector<OpId>> consumers;
  void finish();  // fills `consumers`; checks references, order and uniqueness of names (MOTLEY_CHECK)
};

// What flows from one group to another in the forward pass: each pair once, ascending.
std::vector<std::pair<GroupId, GroupId>> edges_between_groups(const Graph& graph);

}  // namespace motley
