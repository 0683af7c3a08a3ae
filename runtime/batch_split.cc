#include "runtime/batch_split.h"

#include <ATen/ops/cat.h>

#include <vector>

#include "base/error.h"

namespace motley {
namespace {

// [before..., outer * batch * inner, after...] as [before * outer, batch, inner * after].
at::Tensor samples_in_middle(const at::Tensor& tensor, const BatchLayout& layout, std::int64_t batch) {
  MOTLEY_CHECK(layout.kind == BatchLayout::Kind::kSplit, "only a split tensor has samples to cut");
  std::int64_t before = layout.outer;
  for (std::int64_t dim = 0; dim < layout.dim; ++dim) before *= tensor.size(dim);
  MOTLEY_CHECK(tensor.size(layout.dim) % (layout.outer * batch) == 0, "samples of a batch dimension");
  std::int64_t after = tensor.size(layout.dim) / (layout.outer * batch);
  for (std::int64_t dim = layout.dim + 1; dim < tensor.dim(); ++dim) after *= tensor.size(dim);
  return tensor.contiguous().view({before, batch, after});
}

at::Tensor with_samples(const at::Tensor& middle, const at::Tensor& like, const BatchLayout& layout,
                        std::int64_t like_batch) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[layout.dim] = sizes[layout.dim] / like_batch * middle.size(1);
  return middle.view(sizes);
}

}  // namespace

at::Tensor slice_batch(const at::Tensor& tensor, const BatchLayout& layout, std::int64_t begin, std::int64_t end,
                       std::int64_t batch) {
  MOTLEY_CHECK(0 <= begin && begin < end && end <= batch, "a slice's samples");
  const at::Tensor cut = samples_in_middle(tensor, layout, batch).narrow(1, begin, end - begin);
  return with_samples(cut.clone(at::MemoryFormat::Contiguous), tensor, layout, batch);
}

at::Tensor concat_batch(std::span<const at::Tensor> parts, const BatchLayout& layout,
                        std::span<const std::int64_t> batches) {
  MOTLEY_CHECK(!parts.empty() && parts.size() == batches.size(), "parts of a concatenation");
  std::vector<at::Tensor> middles;
  for (std::size_t i = 0; i < parts.size(); ++i) middles.push_back(samples_in_middle(parts[i], layout, batches[i]));
  return with_samples(at::cat(middles, 1), parts[0], layout, batches[0]);
}

}  // namespace motley
