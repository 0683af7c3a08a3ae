// What LocalExecutor does with tensors beside running ops.

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/batch_split.h"
#include "runtime/guarded.h"
#include "runtime/local_executor.h"

namespace motley {
namespace {

// Nobody but this handle can see the elements change.
bool is_sole_owner(const TensorHandle& tensor) {
  return tensor.use_count() == 1 && tensor->value.use_count() == 1 && tensor->value.storage().use_count() == 1 &&
         tensor->value.is_non_overlapping_and_dense();
}

}  // namespace

at::Tensor LocalExecutor::make(TensorId id, std::int64_t batch) const {
  const Tensor& tensor = graph_.tensors[id];
  std::vector<std::int64_t> sizes;
  for (const BatchExpr& size : tensor.shape) sizes.push_back(size.at(batch));
  return at::empty(sizes, at::TensorOptions(device_).dtype(scalar_type(tensor.dtype)));
}

TensorHandle LocalExecutor::empty(TensorId id, std::int64_t batch) {
  const auto describe = [&] { return "a tensor for '" + graph_.tensors[id].name + "'"; };
  return guarded(device_, describe, [&] { return make_handle(make(id, batch)); });
}

TensorHandle LocalExecutor::fill(TensorId id, std::int64_t batch, double value) {
  TensorHandle tensor = empty(id, batch);
  guarded(
      device_, [] { return "fill"; }, [&] { return tensor->value.fill_(value); });
  return tensor;
}

TensorHandle LocalExecutor::from_host(const HostView& tensor) {
  const auto describe = [&] { return "a tensor of " + std::to_string(tensor.bytes.size()) + " bytes from the host"; };
  MOTLEY_CHECK(
      static_cast<std::int64_t>(tensor.bytes.size()) == element_count(tensor.sizes) * size_of(tensor.dtype).value,
      "bytes of a host tensor");
  return guarded(device_, describe, [&] {
    const at::IntArrayRef sizes(tensor.sizes.data(), tensor.sizes.size());
    const at::TensorOptions options = at::TensorOptions().dtype(scalar_type(tensor.dtype));
    at::Tensor copy = at::empty(sizes, options.device(device_));
    if (device_.is_cpu()) {
      if (!tensor.bytes.empty()) std::memcpy(copy.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
    } else {
      copy.copy_(at::from_blob(const_cast<std::byte*>(tensor.bytes.data()), sizes, options));
    }
    return make_handle(std::move(copy));
  });
}

HostTensor LocalExecutor::to_host(const TensorHandle& tensor) {
  return guarded(
      device_, [] { return "a copy to the host"; },
      [&] {
        const WithoutAutograd guard;
        const at::Tensor copy = tensor->value.contiguous().to(c10::Device(c10::kCPU));
        HostTensor host = make_host_tensor(dtype_of(copy.scalar_type()), copy.sizes().vec());
        if (!host.bytes.empty()) std::memcpy(host.bytes.data(), copy.data_ptr(), host.bytes.size());
        return host;
      });
}

TensorHandle LocalExecutor::slice(const TensorHandle& tensor, const BatchLayout& layout, std::int64_t begin,
                                  std::int64_t end, std::int64_t batch) {
  return guarded(
      device_, [] { return "a slice"; },
      [&] {
        const WithoutAutograd guard;
        return make_handle(slice_batch(tensor->value, layout, begin, end, batch));
      });
}

TensorHandle LocalExecutor::concat(std::span<const TensorHandle> parts, const BatchLayout& layout,
                                   std::span<const std::int64_t> batches) {
  return guarded(
      device_, [] { return "a concatenation"; },
      [&] {
        const WithoutAutograd guard;
        std::vector<at::Tensor> tensors;
        for (const TensorHandle& part : parts) tensors.push_back(part->value);
        return make_handle(concat_batch(tensors, layout, batches));
      });
}

TensorHandle LocalExecutor::sum(std::vector<TensorHandle> parts) {
  std::erase(parts, nullptr);
  MOTLEY_CHECK(!parts.empty(), "a sum of nothing");
  return guarded(
      device_, [] { return "a sum"; },
      [&] {
        const WithoutAutograd guard;
        const auto own = std::find_if(parts.begin(), parts.end(), is_sole_owner);
        if (own != parts.end()) std::iter_swap(parts.begin(), own);
        if (parts.size() == 1) return parts[0];
        if (own == parts.end()) {
          TensorHandle total = make_handle(parts[0]->value.add(parts[1]->value));
          parts.erase(parts.begin());
          parts[0] = std::move(total);
        }
        for (std::size_t i = 1; i < parts.size(); ++i) parts[0]->value.add_(parts[i]->value);
        return parts[0];
      });
}

TensorHandle LocalExecutor::scale(TensorHandle tensor, double factor) {
  return guarded(
      device_, [] { return "a scaling"; },
      [&] {
        const WithoutAutograd guard;
        if (factor == 1) return is_sole_owner(tensor) ? tensor : make_handle(tensor->value.clone());
        if (!is_sole_owner(tensor)) return make_handle(tensor->value.mul(factor));
        tensor->value.mul_(factor);
        return tensor;
      });
}

void LocalExecutor::scale_in_place(const TensorHandle& tensor, double factor) {
  guarded(
      device_, [] { return "a scaling"; },
      [&] {
        const WithoutAutograd guard;
        return tensor->value.mul_(factor);
      });
}

void LocalExecutor::copy(const TensorHandle& from, const TensorHandle& to) {
  guarded(
      device_, [] { return "a copy"; },
      [&] {
        const WithoutAutograd guard;
        return to->value.copy_(from->value);
      });
}

TensorHandle LocalExecutor::contiguous(const TensorHandle& tensor) {
  if (tensor->value.is_contiguous()) return tensor;
  return guarded(
      device_, [] { return "a copy"; },
      [&] {
        const WithoutAutograd guard;
        return make_handle(tensor->value.contiguous());
      });
}

TensorHandle LocalExecutor::flat(DType dtype, std::int64_t elements) {
  return guarded(
      device_, [] { return "a buffer"; },
      [&] {
        const WithoutAutograd guard;
        return make_handle(at::empty({elements}, at::TensorOptions().dtype(scalar_type(dtype)).device(device_)));
      });
}

TensorHandle LocalExecutor::view(const TensorHandle& flat, std::int64_t offset, std::span<const std::int64_t> sizes) {
  const WithoutAutograd guard;
  const at::IntArrayRef shape(sizes.data(), sizes.size());
  return make_handle(flat->value.narrow(0, offset, element_count(sizes)).view(shape));
}

}  // namespace motley
