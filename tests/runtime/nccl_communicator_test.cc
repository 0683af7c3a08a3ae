#include "runtime/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"

namespace motley {
namespace {

constexpr Seconds kLong{60};

int devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// With as many ranks as there are GPUs, each a thread; without a GPU, what a user is told.
TEST(NcclCommunicator, WorksOnEveryGpuOrSaysThatThereIsNone) {
  const int size = devices();
  if (size == 0) {
    EXPECT_THROW(make_nccl_communicator({.store = make_memory_store()}, 0), Error);
    return;
  }
  const auto store = make_memory_store();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([=] {
      const auto communicator = make_nccl_communicator({.store = store, .rank = rank, .size = size}, rank);
      void* memory = nullptr;
      ASSERT_EQ(cudaMalloc(&memory, 3 * sizeof(float)), cudaSuccess);
      auto* data = static_cast<float*>(memory);
      std::array<float, 3> host = {1.0f + static_cast<float>(rank), 2.0f, -1.0f};
      cudaMemcpy(data, host.data(), 12, cudaMemcpyHostToDevice);
      communicator->all_reduce(kAllRanks, data, 2, DType::kFloat32, kLong);
      // data[0] goes round the ring into the neighbour's data[2].
      const int right = (rank + 1) % size, left = (rank + size - 1) % size;
      if (size > 1) {
        auto received = communicator->receive(data + 2, Bytes(4), left, 1);
        communicator->send(data, Bytes(4), right, 1)->wait(kLong);
        received->wait(kLong);
      }
      communicator->barrier(kAllRanks, kLong);
      cudaMemcpy(host.data(), data, 12, cudaMemcpyDeviceToHost);
      EXPECT_EQ(host[0], static_cast<float>(size * (size + 1)) / 2);
      EXPECT_EQ(host[1], 2.0f * static_cast<float>(size));
      EXPECT_EQ(host[2], size > 1 ? host[0] : -1.0f);
      cudaFree(data);
      communicator->barrier(kAllRanks, kLong);
    });
  }
}

}  // namespace
}  // namespace motley
