// In a program of its own, since it looks at every array that is allocated.

#include "runtime/gloo_scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/runtime/ranks.h"

namespace {
std::atomic<std::size_t> largest_array = 0;
}

// Gloo's too: a program's own operator new stands for that of all its libraries.
void* operator new[](std::size_t bytes) {
  std::size_t seen = largest_array;
  while (bytes > seen && !largest_array.compare_exchange_weak(seen, bytes)) {
  }
  if (void* array = std::malloc(bytes)) return array;
  throw std::bad_alloc();
}
void operator delete[](void* array) noexcept { std::free(array); }
void operator delete[](void* array, std::size_t) noexcept { std::free(array); }

namespace motley {
namespace {

TEST(GlooScratch, IsTwoSegmentsOfHalfAPartEach) {
  // 80 B among 4: two segments a member, of 10 B, which is 3 floats.
  EXPECT_EQ(gloo_scratch(Bytes(80), 4, Bytes(4)), Bytes(2 * 12));
  EXPECT_EQ(gloo_scratch(Bytes(81), 4, Bytes(1)), Bytes(2 * 11));
  // 12,000,000 B are 12 segments of at most 1 MiB: four for each of 3 members; of 5 members, three for each.
  EXPECT_EQ(gloo_scratch(Bytes(12'000'000), 3, Bytes(4)), Bytes(2 * 1'000'000));
  EXPECT_EQ(gloo_scratch(Bytes(12'000'000), 5, Bytes(4)), Bytes(2 * 800'000));
  EXPECT_EQ(gloo_scratch(Bytes(1 << 30), 2, Bytes(4)), Bytes(2 << 20));
  EXPECT_EQ(gloo_scratch(Bytes(1 << 30), 1, Bytes(4)), Bytes(0));  // with nobody to sum with
}

// What an all-reduce does allocate on any of its members.
TEST(GlooScratch, IsWhatGlooAllocates) {
  for (const int ranks : {2, 3, 5}) {
    for (const std::int64_t floats : {4'000, 100'003, 3'000'000}) {
      const auto errors = run_ranks(ranks, [&](Communicator& communicator) {
        std::vector<float> data(static_cast<std::size_t>(floats), 1);
        communicator.barrier(kAllRanks, Seconds(60));
        if (communicator.rank() == 0) largest_array = 0;
        communicator.barrier(kAllRanks, Seconds(60));
        communicator.all_reduce(kAllRanks, data.data(), floats, DType::kFloat32, Seconds(60));
      });
      for (const std::string& error : errors) EXPECT_EQ(error, "");
      EXPECT_EQ(gloo_scratch(Bytes(4 * floats), static_cast<std::size_t>(ranks), Bytes(4)),
                Bytes(static_cast<std::int64_t>(largest_array)))
          << ranks << " ranks, " << floats << " floats";
    }
  }
}

}  // namespace
}  // namespace motley
