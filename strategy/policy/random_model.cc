#include "strategy/policy/random_model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "graph/forward_builder.h"
#include "graph/training_graph.h"
#include "strategy/policy/draw.h"

namespace motley {

namespace {

// Layers as PyTorch's modules make them.
class Layers {
 public:
  TensorId input(const std::string& name, Shape shape, DType dtype = DType::kFloat32) {
    inputs_.push_back(builder_.add_tensor(name, meta(std::move(shape), dtype), TensorRole::kInput, false));
    return inputs_.back();
  }
  const Shape& shape(TensorId id) const { return builder_.tensor(id).shape; }
  std::int64_t size(TensorId id, std::size_t dim) const { return shape(id)[dim].at(1); }

  void module(std::string name) { module_ = std::move(name); }

  TensorId linear(TensorId from, std::int64_t width) {
    const std::int64_t before = size(from, shape(from).size() - 1);
    Call call = this->call("linear", "aten::linear.default");
    call.add("input", from);
    call.add("weight", parameter("weight", {width, before}));
    call.add("bias", parameter("bias", {width}));
    Shape made = shape(from);
    made.back() = width;
    return add(call, std::move(made));
  }
  TensorId convolution(TensorId from, std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
    Call call = this->call("conv2d", "aten::conv2d.default");
    call.add("input", from);
    call.add("weight", parameter("weight", {channels, size(from, 1), kernel, kernel}));
    call.add("bias", parameter("bias", {channels}));
    call.arguments.push_back({"stride", std::vector<BatchExpr>{stride, stride}});
    call.arguments.push_back({"padding", std::vector<BatchExpr>{kernel / 2, kernel / 2}});
    Shape made = shape(from);
    made[1] = channels;
    for (const std::size_t dim : {2, 3}) made[dim] = (size(from, dim) + 2 * (kernel / 2) - kernel) / stride + 1;
    return add(call, std::move(made));
  }
  TensorId pool(TensorId from) {
    Call call = this->call("max_pool2d", "aten::max_pool2d.default");
    call.add("self", from);
    call.arguments.push_back({"kernel_size", std::vector<BatchExpr>{2, 2}});
    call.arguments.push_back({"stride", std::vector<BatchExpr>{2, 2}});
    Shape made = shape(from);
    for (const std::size_t dim : {2, 3}) made[dim] = size(from, dim) / 2;
    return add(call, std::move(made));
  }
  TensorId normalized(TensorId from) {
    const std::int64_t width = size(from, shape(from).size() - 1);
    Call call = this->call("layer_norm", "aten::layer_norm.default");
    call.add("input", from);
    call.arguments.push_back({"normalized_shape", std::vector<BatchExpr>{width}});
    call.add("weight", parameter("weight", {width}));
    call.add("bias", parameter("bias", {width}));
    return add(call, shape(from));
  }
  TensorId embedding(TensorId indices, std::int64_t rows, std::int64_t width) {
    Call call = this->call("embedding", "aten::embedding.default");
    call.add("weight", parameter("weight", {rows, width}));
    call.add("indices", indices);
    Shape made = shape(indices);
    made.emplace_back(width);
    return add(call, std::move(made));
  }
  TensorId attention(TensorId query, TensorId key, TensorId value) {
    Call call = this->call("attention", "aten::scaled_dot_product_attention.default");
    call.add("query", query);
    call.add("key", key);
    call.add("value", value);
    return add(call, shape(query));
  }
  TensorId activation(const char* name, TensorId from) {
    Call call = this->call(name, std::string("aten::") + name + ".default");
    call.add("self", from);
    return add(call, shape(from));
  }
  TensorId sum(TensorId a, TensorId b) {
    Call call = this->call("add", "aten::add.Tensor");
    call.add("self", a);
    call.add("other", b);
    return add(call, shape(a));
  }
  TensorId joined(const std::vector<TensorId>& parts, std::size_t dim) {
    if (parts.size() == 1) return parts.front();
    Call call = this->call("cat", "aten::cat.default");
    std::vector<InputRef> places;
    Shape made = shape(parts.front());
    made[dim] = 0;
    for (const TensorId part : parts) {
      places.push_back({static_cast<std::int32_t>(call.inputs.size())});
      call.inputs.push_back(part);
      made[dim] = made[dim] + shape(part)[dim];
    }
    call.arguments.push_back({"tensors", std::move(places)});
    call.arguments.push_back({"dim", BatchExpr(static_cast<std::int64_t>(dim))});
    return add(call, std::move(made));
  }
  TensorId flat(TensorId from) {
    std::int64_t width = 1;
    for (std::size_t dim = 1; dim < shape(from).size(); ++dim) width *= size(from, dim);
    Call call = this->call("view", "aten::view.default");
    call.add("self", from);
    call.arguments.push_back({"size", std::vector<BatchExpr>{BatchExpr::batch(), width}});
    return add(call, {BatchExpr::batch(), width});
  }

  Graph finish(TensorId last, const TrainingOptions& options) {
    module_ = "loss";
    Call call = this->call("loss", "aten::mean.default");
    call.add("self", last);
    const TensorId loss = add(call, {});
    return make_training_graph(builder_.finish("random", inputs_, loss), options);
  }

 private:
  static TensorMeta meta(Shape shape, DType dtype = DType::kFloat32) {
    Shape strides(shape.size());
    BatchExpr stride = 1;
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      strides[dim] = stride;
      stride = stride * shape[dim];
    }
    return {dtype, std::move(shape), std::move(strides)};
  }
  Call call(const std::string& name, std::string target) const {
    Call call;
    call.name = module_ + "." + name;
    call.target = std::move(target);
    call.module = module_;
    return call;
  }
  TensorId parameter(const char* name, Shape shape) {
    return builder_.add_tensor(module_ + "." + name, meta(std::move(shape)), TensorRole::kParameter, true);
  }
  TensorId add(const Call& call, Shape shape) { return builder_.add(call, meta(std::move(shape))); }

  ForwardBuilder builder_;
  std::vector<TensorId> inputs_;
  std::string module_ = "model";
};

std::string numbered(const char* name, std::int64_t number) { return name + std::to_string(number); }
std::int64_t size_between(Draw& draw, double least, double most, std::int64_t multiple) {
  return std::max<std::int64_t>(1, std::llround(draw.log_between(least, most) / static_cast<double>(multiple))) *
         multiple;
}

TensorId transformer(Layers& layers, Draw& draw) {
  const std::int64_t length = size_between(draw, 32, 1024, 32), width = size_between(draw, 128, 2048, 64);
  const std::int64_t depth = draw.between(2, 12), wider = draw.of<std::int64_t>({2, 4, 4, 6});
  TensorId x = kNone;
  std::int64_t words = 0;
  if (draw.chance(0.75)) {
    words = size_between(draw, 1e3, 2.5e5, 8);
    layers.module("embedding");
    x = layers.embedding(layers.input("tokens", {BatchExpr::batch(), length}, DType::kInt64), words, width);
  } else {
    layers.module("projection");
    x = layers.linear(layers.input("x", {BatchExpr::batch(), length, size_between(draw, 32, 1024, 8)}), width);
  }
  for (std::int64_t i = 0; i < depth; ++i) {
    layers.module(numbered("block", i) + ".attention");
    const TensorId before = layers.normalized(x);
    const TensorId attended =
        layers.attention(layers.linear(before, width), layers.linear(before, width), layers.linear(before, width));
    x = layers.sum(x, layers.linear(attended, width));
    layers.module(numbered("block", i) + ".mlp");
    const TensorId wide = layers.activation("gelu", layers.linear(layers.normalized(x), wider * width));
    x = layers.sum(x, layers.linear(wide, width));
  }
  layers.module("head");
  return words > 0 && draw.chance(0.7) ? layers.linear(layers.normalized(x), words) : layers.normalized(x);
}

TensorId convolutional(Layers& layers, Draw& draw) {
  const std::int64_t resolution = size_between(draw, 32, 256, 32);
  std::int64_t channels = size_between(draw, 16, 128, 8);
  const std::int64_t stages = draw.between(2, 5), blocks = draw.between(1, 5);
  const bool residual = draw.chance(0.4);
  const std::int64_t branches = residual ? 1 : draw.of<std::int64_t>({1, 1, 2, 3, 4});
  layers.module("stem");
  const bool strided = draw.chance(0.5);
  TensorId x = layers.input("image", {BatchExpr::batch(), 3, resolution, resolution});
  x = layers.activation("relu", layers.convolution(x, channels, strided ? 7 : 3, strided ? 2 : 1));
  for (std::int64_t stage = 0; stage < stages && layers.size(x, 2) >= 4; ++stage) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      layers.module(numbered("stage", stage) + numbered(".block", block));
      const std::int64_t width = std::max<std::int64_t>(8, channels / branches);
      std::vector<TensorId> parts;
      for (std::int64_t branch = 0; branch < branches; ++branch) {
        TensorId y = layers.activation("relu", layers.convolution(x, width, 2 * (branch % 3) + 1, 1));
        if (branches == 1 || branch > 0) y = layers.activation("relu", layers.convolution(y, width, 3, 1));
        parts.push_back(y);
      }
      const TensorId y = layers.joined(parts, 1);
      x = residual && layers.shape(y) == layers.shape(x) ? layers.sum(x, y) : y;
    }
    layers.module(numbered("pool", stage));
    x = layers.pool(x);
    channels = std::min<std::int64_t>(channels * 2, 1024);
  }
  x = layers.flat(x);
  const std::int64_t hidden = draw.between(0, 2), width = size_between(draw, 128, 4096, 64);
  for (std::int64_t i = 0; i < hidden; ++i) {
    layers.module(numbered("classifier", i));
    x = layers.activation("relu", layers.linear(x, width));
  }
  layers.module("head");
  return layers.linear(x, size_between(draw, 10, 2e4, 10));
}

TensorId perceptron(Layers& layers, Draw& draw, TensorId x, const char* name, std::int64_t depth, double most) {
  const bool even = draw.chance(0.5);
  std::int64_t width = size_between(draw, 64, most, 32);
  for (std::int64_t i = 0; i < depth; ++i) {
    layers.module(numbered(name, i));
    if (!even) width = size_between(draw, 64, most, 32);
    x = layers.activation("relu", layers.linear(x, width));
  }
  return x;
}

TensorId recommender(Layers& layers, Draw& draw) {
  const std::int64_t tables = draw.between(2, 12), width = size_between(draw, 16, 256, 16);
  std::vector<TensorId> parts;
  for (std::int64_t i = 0; i < tables; ++i) {
    layers.module(numbered("table", i));
    const TensorId indices =
        layers.input(numbered("feature", i), {BatchExpr::batch(), draw.between(1, 16)}, DType::kInt64);
    parts.push_back(layers.flat(layers.embedding(indices, size_between(draw, 1e3, 2e6, 1), width)));
  }
  const TensorId dense = layers.input("dense", {BatchExpr::batch(), size_between(draw, 16, 1024, 8)});
  parts.push_back(perceptron(layers, draw, dense, "bottom", draw.between(1, 4), 2048));
  layers.module("join");
  return perceptron(layers, draw, layers.joined(parts, 1), "top", draw.between(2, 8), 4096);
}

TensorId branching(Layers& layers, Draw& draw) {
  const std::int64_t towers = draw.between(1, 4);
  std::vector<TensorId> parts;
  TensorId shared = layers.input("x", {BatchExpr::batch(), size_between(draw, 64, 4096, 32)});
  if (draw.chance(0.5)) shared = perceptron(layers, draw, shared, "trunk", draw.between(1, 6), 4096);
  for (std::int64_t i = 0; i < towers; ++i) {
    parts.push_back(
        perceptron(layers, draw, shared, numbered("tower", i).append(".").c_str(), draw.between(2, 8), 8192));
  }
  layers.module("join");
  return perceptron(layers, draw, layers.joined(parts, 1), "top", draw.between(1, 8), 8192);
}

}  // namespace

Graph random_model(std::uint64_t seed) {
  Draw draw(seed);
  Layers layers;
  TensorId last = kNone;
  switch (draw.between(0, 6)) {
    case 0:
    case 1:
    case 2:
      last = transformer(layers, draw);
      break;
    case 3:
    case 4:
      last = convolutional(layers, draw);
      break;
    case 5:
      last = recommender(layers, draw);
      break;
    default:
      last = branching(layers, draw);
  }
  TrainingOptions options;
  options.max_groups = static_cast<std::int32_t>(draw.between(6, 48));
  options.optimizer.kind = draw.chance(0.5) ? OptimizerOptions::Kind::kAdam : OptimizerOptions::Kind::kSgd;
  if (draw.chance(0.5)) options.optimizer.momentum = 0.9;
  return layers.finish(last, options);
}

}  // namespace motley
