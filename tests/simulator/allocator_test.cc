#include "simulator/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/simulator/hand_built.h"

namespace motley {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kKiB = std::int64_t{1} << 10;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class CudaAllocatorModelTest : public ::testing::Test {
 protected:
  AllocatorModel::Block take(std::int64_t bytes) { return allocator_.allocate(Bytes(bytes)); }
  void expect(std::int64_t allocated, std::int64_t reserved) const {
    EXPECT_EQ(allocator_.allocated().value, allocated);
    EXPECT_EQ(allocator_.reserved().value, reserved);
  }
  CudaAllocatorModel allocator_{Bytes(50 * kMiB)};
};

TEST_F(CudaAllocatorModelTest, RoundsUpTo512Bytes) {
  take(1);
  expect(512, 2 * kMiB);
  take(0);
  expect(1024, 2 * kMiB);
  take(513);
  expect(2048, 2 * kMiB);
}

TEST_F(CudaAllocatorModelTest, SmallRequestsShareSegmentsOf2MiB) {
  take(kMiB);
  take(kMiB);
  expect(2 * kMiB, 2 * kMiB);
  take(512);
  expect(2 * kMiB + 512, 4 * kMiB);
}

TEST_F(CudaAllocatorModelTest, RequestsOfOver1MiBShareSegmentsOf20MiB) {
  take(kMiB + 1);
  expect(kMiB + 512, 20 * kMiB);
  take(10 * kMiB - 512);  // 19 MiB - 512 B are left of the segment
  expect(11 * kMiB, 20 * kMiB);
  take(10 * kMiB - 512);  // 9 MiB are left
  expect(21 * kMiB - 512, 40 * kMiB);
}

TEST_F(CudaAllocatorModelTest, From10MiBOnASegmentIsOfTheRequestRoundedUpTo2MiB) {
  take(10 * kMiB);
  expect(10 * kMiB, 10 * kMiB);
  take(10 * kMiB + 1);  // of 12 MiB, the rest of 2 MiB - 512 B is over 1 MiB and split off
  expect(20 * kMiB + 512, 22 * kMiB);
  take(11 * kMiB);  // of 12 MiB, the rest of 1 MiB is not: it counts as allocated
  expect(32 * kMiB + 512, 34 * kMiB);
}

TEST_F(CudaAllocatorModelTest, FreeNeighboursAreJoined) {
  const auto a = take(4 * kMiB), b = take(4 * kMiB);
  take(4 * kMiB);
  allocator_.free(a);
  allocator_.free(b);
  take(8 * kMiB);  // where a and b were; the 8 MiB behind the third one are left
  take(8 * kMiB);
  expect(20 * kMiB, 20 * kMiB);
}

TEST_F(CudaAllocatorModelTest, TheSmallestBlockThatIsLargeEnoughGoesFirst) {
  const auto a = take(6 * kMiB);
  take(2 * kMiB);
  const auto b = take(3 * kMiB);
  take(9 * kMiB);  // the segment is full
  allocator_.free(a);
  allocator_.free(b);
  take(3 * kMiB);  // b's place, not half of a's
  take(6 * kMiB);
  expect(20 * kMiB, 20 * kMiB);
}

TEST_F(CudaAllocatorModelTest, FreeBlocksApartDoNotServeALargerRequest) {
  const auto a = take(5 * kMiB);
  take(5 * kMiB);
  const auto c = take(5 * kMiB);
  take(5 * kMiB);
  allocator_.free(a);
  allocator_.free(c);
  take(8 * kMiB);  // 10 MiB are free, 5 and 5
  expect(18 * kMiB, 40 * kMiB);
}

TEST_F(CudaAllocatorModelTest, FreeSegmentsAreGivenBackBeforeTheDeviceIsFull) {
  allocator_.free(take(30 * kMiB));
  expect(0, 30 * kMiB);
  take(40 * kMiB);  // 70 of 50 MiB, were the free segment kept
  expect(40 * kMiB, 40 * kMiB);
  take(20 * kMiB);  // fails on a device; here one sees by how much
  EXPECT_EQ(allocator_.reserved_peak().value, 60 * kMiB);
}

class CpuAllocatorModelTest : public ::testing::Test {
 protected:
  CpuAllocatorModel allocator_;
};

TEST_F(CpuAllocatorModelTest, BlocksAreOfEightSizesPerDoubling) {
  // 97 to 104 bytes are one size, and 64 bytes before them are the header.
  allocator_.free(allocator_.allocate(Bytes(98)));
  EXPECT_EQ(allocator_.reserved().value, 98 + 64);
  const auto block = allocator_.allocate(Bytes(104));  // the same block, used further
  EXPECT_EQ(allocator_.reserved().value, 104 + 64);
  EXPECT_EQ(allocator_.allocated().value, 104);
  allocator_.free(block);
  allocator_.allocate(Bytes(96));  // of the next smaller size
  EXPECT_EQ(allocator_.reserved().value, 104 + 64 + 96 + 64);
}

TEST_F(CpuAllocatorModelTest, LargeBlocksAreResidentByHugePages) {
  // 2 MiB + 1 B take a block of 2.25 MiB: a huge page, and of the next one what is written.
  allocator_.allocate(Bytes(2 * kMiB + 1));
  EXPECT_EQ(allocator_.reserved().value, 2 * kMiB + 1 + 64);
  // 6 MiB - 4 KiB take one of 6 MiB: three huge pages, the last of which is not written to its end.
  CpuAllocatorModel other;
  other.allocate(Bytes(6 * kMiB - 4 * kKiB));
  EXPECT_EQ(other.reserved().value, 6 * kMiB);
}

// What the allocator makes of an iteration on one device of 100 MiB whose context takes 1 MiB.
class AllocatorOfADeviceTest : public ::testing::Test {
 protected:
  AllocatorOfADeviceTest() { h_.costs.context_bytes = kMiB; }
  // `weight` persists; a, b, c, d live together, then a and c go, and e is made.
  DeviceMemory run(std::int64_t weight, std::int64_t each, std::int64_t last) {
    const ValueId w = h_.value(0, "w", weight, true);
    std::vector<ValueId> parts;
    for (const char* name : {"a", "b", "c", "d"}) parts.push_back(h_.value(0, name, each));
    const ValueId e = h_.value(0, "e", last);
    for (const ValueId part : parts) h_.compute(0, h_.op({1}), {w}, {part});
    h_.compute(0, h_.op({1}), {parts[0], parts[2]}, {}, {parts[0], parts[2]});
    h_.compute(0, h_.op({1}), {parts[1], parts[3]}, {e}, {parts[1], parts[3]});
    h_.compute(0, h_.op({1}), {e}, {}, {e});
    result_ = h_.run();
    return result_.memory[0];
  }
  HandBuilt h_{star({1}, Bytes(100 * kMiB))};
  SimulationResult result_;
};

TEST_F(AllocatorOfADeviceTest, WithoutAModelBytesAreAllThereIs) {
  const DeviceMemory memory = run(3, 5, 8);
  EXPECT_EQ(memory.allocated.value, 3 + 4 * 5);
  EXPECT_EQ(memory.reserved.value, 3 + 4 * 5);
  EXPECT_EQ(memory.peak.value, kMiB + 3 + 4 * 5);
}

TEST_F(AllocatorOfADeviceTest, AnIterationLeavesTheNextOneItsBlocks) {
  h_.costs.kind = AllocatorKind::kCuda;
  const DeviceMemory memory = run(10 * kMiB, 5 * kMiB, 8 * kMiB);
  // The weight has a segment of 10 MiB, a to d share one of 20, e finds 5 and 5 MiB apart and takes another one. The
  // next iteration's a to d go where they fit tightest: into the 20 MiB that are whole, or the 20 that e left.
  EXPECT_EQ(memory.allocated.value, 10 * kMiB + 20 * kMiB);
  EXPECT_EQ(memory.reserved.value, 10 * kMiB + 20 * kMiB + 20 * kMiB);
  EXPECT_EQ(memory.peak.value, kMiB + 50 * kMiB);
  EXPECT_EQ(memory.uses[MemoryUse::kAllocator].value, 20 * kMiB);  // all but w and a to d
}

TEST_F(AllocatorOfADeviceTest, CpuBlocksAreKeptBySize) {
  h_.costs.kind = AllocatorKind::kCpu;
  const DeviceMemory memory = run(kMiB, 5 * kMiB, 8 * kMiB);
  EXPECT_EQ(memory.allocated.value, kMiB + 20 * kMiB);
  EXPECT_EQ(memory.reserved.value, kMiB + 20 * kMiB + 8 * kMiB + 6 * 64);  // none of 5 MiB serves one of 8
}

// Where the device's memory is the process's own, the inputs of the next iteration wait there, and Gloo has its
// segments.
TEST(MemoryOfACpuTest, HoldsWhatTheProcessHolds) {
  HandBuilt h(star({1, 1}));
  h.costs.context_bytes = 5;
  std::vector<ValueId> gradients;
  for (DeviceIndex d = 0; d < 2; ++d) {
    const ValueId x = h.value(d, "x", 100);
    h.graph.tensors.back().role = TensorRole::kInput;
    h.program(d).inputs = {x};
    gradients.push_back(h.value(d, "g", 40));
    h.graph.tensors.back().role = TensorRole::kGradient;
    h.compute(d, h.op({1}), {x}, {gradients.back()});
  }
  h.all_reduce({0, 1}, gradients, 40);
  EXPECT_EQ(h.run().memory[0].peak, Bytes(5 + 100 + 40));
  h.costs.kind = AllocatorKind::kCpu;
  const DeviceMemory memory = h.run().memory[0];
  // Of 40 B each member's part is 20 B, a segment half of that in whole floats: 12 B, twice. Blocks have headers of 64
  // B.
  EXPECT_EQ(memory.uses[MemoryUse::kInputs], Bytes(2 * 100));
  EXPECT_EQ(memory.uses[MemoryUse::kCommunication], Bytes(2 * 12));
  EXPECT_EQ(memory.uses[MemoryUse::kAllocator], Bytes(2 * 64));
  EXPECT_EQ(memory.peak, Bytes(5 + 200 + 40 + 24 + 128));
  EXPECT_EQ(memory.reserved, Bytes(100 + 40 + 128));  // the others are none of the allocator's
}

TEST_F(AllocatorOfADeviceTest, OutOfMemoryTellsWhatFragmentationTakes) {
  h_.costs.kind = AllocatorKind::kCuda;
  run(60 * kMiB, 5 * kMiB, 8 * kMiB);
  EXPECT_FALSE(result_.feasible);
  // 1 + 60 + 20 + 20 MiB; at the peak of the tensors 60 + 20 of them lived.
  EXPECT_THAT(
      result_.reasons,
      ElementsAre(
          "n0/0 needs 101 MiB of 100 MiB (1.00 MiB over): 60.0 MiB weights, 20.0 MiB activations, "
          "20.0 MiB allocator overhead, 1.00 MiB context; the largest are w (60.0 MiB), a (5.00 MiB), b (5.00 MiB)"));
}

}  // namespace
}  // namespace motley
