#include "runtime/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/ranks.h"

namespace motley {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr Seconds kLong{60};

// A firewall: what this rank sends to `blocked` never leaves.
class Firewall : public Communicator {
 public:
  Firewall(Communicator& inner, int blocked) : inner_(inner), blocked_(blocked) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name_of(int rank) const override { return inner_.name_of(rank); }
  std::unique_ptr<Pending> send(const void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent) override {
    struct Lost : Pending {
      void wait(Seconds) override {}
    };
    return peer == blocked_ ? std::make_unique<Lost>() : inner_.send(data, bytes, peer, tag);
  }
  std::unique_ptr<Pending> receive(void* data, Bytes bytes, int peer, std::int32_t tag, NativeEvent) override {
    return inner_.receive(data, bytes, peer, tag);
  }
  RankGroup create_group(const std::vector<int>& members, Seconds timeout) override {
    return inner_.create_group(members, timeout);
  }
  const std::vector<int>& members(RankGroup group) const override { return inner_.members(group); }
  void all_reduce(RankGroup group, void* data, std::int64_t count, DType dtype, Seconds timeout, NativeEvent) override {
    inner_.all_reduce(group, data, count, dtype, timeout);
  }
  void all_gather(RankGroup group, const void* mine, void* all, Bytes each, Seconds timeout, NativeEvent) override {
    inner_.all_gather(group, mine, all, each, timeout);
  }
  void broadcast(RankGroup group, void* data, Bytes bytes, int root, Seconds timeout, NativeEvent) override {
    inner_.broadcast(group, data, bytes, root, timeout);
  }
  void barrier(RankGroup group, Seconds timeout) override { inner_.barrier(group, timeout); }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  Communicator& inner_;
  const int blocked_;
};

TEST(Preflight, PassesOnGroupsThatOverlap) {
  EXPECT_THAT(run_ranks(3,
                        [](Communicator& communicator) {
                          std::vector<RankGroup> groups = {kAllRanks};
                          if (communicator.rank() <= 1) groups.push_back(communicator.create_group({0, 1}, kLong));
                          if (communicator.rank() >= 1) groups.push_back(communicator.create_group({1, 2}, kLong));
                          std::vector<char> scratch(16);
                          preflight(communicator, groups, scratch.data(), kLong);
                        }),
              Each(""));
}

TEST(Preflight, NamesThePairThatFails) {
  const auto errors = run_ranks(3, [](Communicator& communicator) {
    Firewall firewall(communicator, communicator.rank() == 2 ? 0 : -1);
    std::vector<char> scratch(16);
    preflight(firewall, {kAllRanks}, scratch.data(), communicator.rank() == 0 ? Seconds(0.1) : kLong);
  });
  EXPECT_THAT(errors, Each(HasSubstr("no messages between rank 0 and rank 2")));
}

TEST(Preflight, NamesTheGroupThatSomebodyMisses) {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    std::vector<char> scratch(12);
    const RankGroup pair = communicator.create_group({0, 1}, kLong);
    preflight(communicator, {kAllRanks}, scratch.data(), kLong);
    if (communicator.rank() == 0) preflight(communicator, {kAllRanks, pair}, scratch.data(), Seconds(0.1));
    if (communicator.rank() == 1) preflight(communicator, {kAllRanks}, scratch.data(), Seconds(0.1));
  });
  EXPECT_THAT(errors, Each(HasSubstr("all-reduce of the group of rank 0, rank 1")));
}

}  // namespace
}  // namespace motley
