#include "runtime/gloo_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tests/runtime/ranks.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr Seconds kLong{60};

// Numbers that every dtype here holds exactly, sums over 8 ranks too (8 * (7 + 8) = 120 < 128; bf16 has 8 bits).
int number_of(int rank, std::int64_t i) { return static_cast<int>(i % 8) + rank; }
// sum over ranks of (i % 8 + rank) = n * (i % 8) + n * (n - 1) / 2
int sum_of(int size, std::int64_t i) { return size * static_cast<int>(i % 8) + size * (size - 1) / 2; }

// gmock's Each takes seconds for a million elements.
template <class Vector>
bool all_are(const Vector& data, int number) {
  return std::all_of(data.begin(), data.end(), [&](auto element) { return element == number; });
}

struct Halves {  // IEEE half and bfloat16 of a small whole number, from its float's bits (exact: no rounding needed)
  static std::uint16_t bfloat16(float number) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, 4);
    return static_cast<std::uint16_t>(bits >> 16);
  }
  static std::uint16_t half(float number) {
    if (number == 0) return 0;
    int exponent = 0;
    const float fraction = std::frexp(number, &exponent);  // in [0.5, 1): number = 2 fraction * 2^(exponent - 1)
    return static_cast<std::uint16_t>(((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) & 1023));
  }
};

template <class Element, class Convert>
void check_sum(Communicator& communicator, std::int64_t length, DType dtype, Convert convert) {
  std::vector<Element> data(length);
  for (std::int64_t i = 0; i < length; ++i) data[i] = convert(number_of(communicator.rank(), i));
  communicator.all_reduce(kAllRanks, data.data(), length, dtype, kLong);
  for (std::int64_t i = 0; i < length; ++i) ASSERT_EQ(data[i], convert(sum_of(communicator.size(), i))) << i;
}

void check_sums(Communicator& communicator, std::int64_t length) {
  check_sum<float>(communicator, length, DType::kFloat32, [](int n) { return static_cast<float>(n); });
  check_sum<double>(communicator, length, DType::kFloat64, [](int n) { return static_cast<double>(n); });
  check_sum<std::uint16_t>(communicator, length, DType::kFloat16, Halves::half);
  check_sum<std::uint16_t>(communicator, length, DType::kBFloat16, Halves::bfloat16);
  check_sum<std::int64_t>(communicator, length, DType::kInt64, [](int n) { return std::int64_t{n} << 40; });
  check_sum<std::int32_t>(communicator, length, DType::kInt32, [](int n) { return -n; });
  check_sum<std::int16_t>(communicator, length, DType::kInt16, [](int n) { return static_cast<std::int16_t>(-n); });
  check_sum<std::int8_t>(communicator, length, DType::kInt8, [](int n) { return static_cast<std::int8_t>(n); });
  check_sum<std::uint8_t>(communicator, length, DType::kUInt8, [](int n) { return static_cast<std::uint8_t>(n); });
}

void check_bool_is_true_where_any_member_has_it(Communicator& communicator, std::int64_t length) {
  std::vector<std::uint8_t> data(length);
  for (std::int64_t i = 0; i < length; ++i) data[i] = i % 9 == communicator.rank();
  communicator.all_reduce(kAllRanks, data.data(), length, DType::kBool, kLong);
  for (std::int64_t i = 0; i < length; ++i) ASSERT_EQ(data[i], i % 9 < communicator.size()) << i;
}

void check_all_gather_is_in_the_order_of_ranks(Communicator& communicator, std::int64_t length) {
  const std::vector<char> mine(length, static_cast<char>('a' + communicator.rank()));
  std::vector<char> all(length * communicator.size());
  communicator.all_gather(kAllRanks, mine.data(), all.data(), Bytes(length), kLong);
  for (std::int64_t i = 0; i < std::ssize(all); ++i) ASSERT_EQ(all[i], 'a' + i / length) << i;
}

void check_broadcast_from_the_last_rank(Communicator& communicator, std::int64_t length) {
  std::vector<char> data(length, static_cast<char>(communicator.rank()));
  communicator.broadcast(kAllRanks, data.data(), Bytes(length), communicator.size() - 1, kLong);
  EXPECT_TRUE(all_are(data, communicator.size() - 1));
}

void check_messages_to_everyone_at_once(Communicator& communicator, std::int64_t length) {
  std::vector<std::vector<std::int32_t>> out(communicator.size()), in(communicator.size());
  std::vector<std::unique_ptr<Pending>> pending;
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    out[peer].assign(length, 100 * communicator.rank() + peer);
    in[peer].assign(length, -1);
    pending.push_back(communicator.send(out[peer].data(), Bytes(4 * length), peer, 5));
    pending.push_back(communicator.receive(in[peer].data(), Bytes(4 * length), peer, 5));
  }
  for (auto& message : pending) message->wait(kLong);
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    EXPECT_TRUE(all_are(in[peer], 100 * peer + communicator.rank())) << peer;
  }
}

// ranks x length. One case for all operations, since eight ranks take a third of a second to connect and to part.
class GlooCommunicatorTest : public testing::TestWithParam<std::tuple<int, std::int64_t>> {};

TEST_P(GlooCommunicatorTest, EveryOperationGivesWhatArithmeticSays) {
  const auto [size, length] = GetParam();
  EXPECT_THAT(run_ranks(size,
                        [length = length](Communicator& communicator) {
                          check_sums(communicator, length);
                          check_bool_is_true_where_any_member_has_it(communicator, length);
                          check_all_gather_is_in_the_order_of_ranks(communicator, length);
                          check_broadcast_from_the_last_rank(communicator, length);
                          check_messages_to_everyone_at_once(communicator, length);
                        }),
              Each(""));
}

INSTANTIATE_TEST_SUITE_P(RanksAndLengths, GlooCommunicatorTest,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 6, 7, 8),
                                          testing::Values<std::int64_t>(0, 1, 13, 100'003)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "ranks" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(GlooMessages, TagsTellMessagesApartAndEqualTagsKeepOrder) {
  EXPECT_THAT(run_ranks(2,
                        [](Communicator& communicator) {
                          std::vector<int> data = {1, 2, 3};
                          const std::vector<int> tags = {8, 8, 9};
                          std::vector<std::unique_ptr<Pending>> pending;
                          if (communicator.rank() == 0) {
                            for (int i : {0, 1, 2})
                              pending.push_back(communicator.send(&data[i], Bytes(4), 1, tags[i]));
                          } else {
                            data = {0, 0, 0};
                            for (int i : {2, 0, 1}) {
                              pending.push_back(communicator.receive(&data[i], Bytes(4), 0, tags[i]));
                            }
                          }
                          for (auto& message : pending) message->wait(kLong);
                          EXPECT_EQ(data, (std::vector<int>{1, 2, 3}));
                        }),
              Each(""));
}

TEST(GlooMessages, RunBesideCollectives) {
  EXPECT_THAT(run_ranks(3,
                        [](Communicator& communicator) {
                          std::jthread collectives([&] {
                            for (int round = 0; round < 50; ++round)
                              check_sum<float>(communicator, 1000, DType::kFloat32,
                                               [](int n) { return static_cast<float>(n); });
                          });
                          const int right = (communicator.rank() + 1) % 3;
                          const int left = (communicator.rank() + 2) % 3;
                          for (int round = 0; round < 50; ++round) {
                            std::vector<int> out(500, round), in(500, -1);
                            auto sent = communicator.send(out.data(), Bytes(2000), right, round);
                            communicator.receive(in.data(), Bytes(2000), left, round)->wait(kLong);
                            sent->wait(kLong);
                            ASSERT_TRUE(all_are(in, round));
                          }
                        }),
              Each(""));
}

TEST(GlooGroups, CommonMembersDoNotCross) {
  EXPECT_THAT(run_ranks(3,
                        [](Communicator& communicator) {
                          // {0, 1} and {1, 2} meet in rank 1, which enters both at once; {0, 1} exists twice.
                          std::vector<RankGroup> mine;
                          if (communicator.rank() <= 1) mine.push_back(communicator.create_group({0, 1}, kLong));
                          if (communicator.rank() <= 1) mine.push_back(communicator.create_group({0, 1}, kLong));
                          if (communicator.rank() >= 1) mine.push_back(communicator.create_group({1, 2}, kLong));
                          std::vector<std::jthread> threads;
                          for (const RankGroup group : mine) {
                            threads.emplace_back([&communicator, group] {
                              const int low = communicator.members(group)[0];
                              for (int round = 1; round <= 100; ++round) {
                                double value = round * (communicator.rank() + 1);
                                communicator.all_reduce(group, &value, 1, DType::kFloat64, kLong);
                                ASSERT_EQ(value, round * (low == 0 ? 1 + 2 : 2 + 3));
                              }
                            });
                          }
                        }),
              Each(""));
}

TEST(GlooFailures, AMessageThatNobodySendsNamesThePeerAndHarmsNobodyElse) {
  const auto errors = run_ranks(3, [](Communicator& communicator) {
    int value = 7;
    if (communicator.rank() == 0) {
      try {
        communicator.receive(&value, Bytes(4), 1, 3)->wait(Seconds(0.05));
        ADD_FAILURE() << "received what was not sent";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
        EXPECT_THAT(error.what(), HasSubstr("rank 0 waited 50.0 ms while receiving 4.00 B (tag 3) from rank 1"));
      }
      communicator.send(&value, Bytes(4), 2, 0)->wait(kLong);
    } else if (communicator.rank() == 2) {
      communicator.receive(&value, Bytes(4), 0, 0)->wait(kLong);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(GlooFailures, ACollectiveThatSomebodyMissesNamesTheGroup) {
  const auto errors = run_ranks(3, [](Communicator& communicator) {
    float value = 1;
    if (communicator.rank() != 2) communicator.all_reduce(kAllRanks, &value, 1, DType::kFloat32, Seconds(0.1));
  });
  EXPECT_THAT(errors, Each(HasSubstr("in the all-reduce of the group of rank 0, rank 1, rank 2")));
}

TEST(GlooFailures, AbortWakesEverybodyWithItsReason) {
  const auto errors = run_ranks(4, [](Communicator& communicator) {
    int value = 0;
    if (communicator.rank() == 0) communicator.abort("rank 0 ran out of memory");
    if (communicator.rank() == 1) communicator.barrier(kAllRanks, kLong);
    if (communicator.rank() == 2) communicator.receive(&value, Bytes(4), 0, 0)->wait(kLong);
    if (communicator.rank() == 3) communicator.receive(&value, Bytes(4), 0, 0)->wait(kLong);
  });
  EXPECT_THAT(errors, Each("rank 0 ran out of memory"));
}

TEST(GlooFailures, AbortWakesTheRanksOwnThreads) {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    if (communicator.rank() == 1) return communicator.barrier(kAllRanks, kLong);
    int value = 0;
    auto message = communicator.receive(&value, Bytes(4), 1, 0);
    std::jthread other([&] { communicator.abort("stopped by the user"); });
    message->wait(kLong);
  });
  EXPECT_THAT(errors, Each("stopped by the user"));
}

TEST(GlooFailures, NamesWhoDidNotCome) {
  const Rendezvous alone{
      .store = make_memory_store(), .rank = 0, .size = 2, .names = {"big/0", "small/0"}, .timeout = Seconds(0.05)};
  const std::string message = support::error_of([&] { make_gloo_communicator(alone); });
  EXPECT_THAT(message, HasSubstr("rank 0 (big/0) waited 50.0 ms for rank 1 (small/0)"));
}

TEST(GlooFailures, NamesAnInterfaceThatIsNotThere) {
  const Rendezvous wrong{.store = make_memory_store(), .interface = "wire7"};
  const std::string message = support::error_of([&] { make_gloo_communicator(wrong); }, ErrorKind::kInvalidInput);
  EXPECT_THAT(message, HasSubstr("interface wire7"));
}

TEST(GlooCommunicator, ListensOnAnInterface) {
  Rendezvous loopback{.store = make_memory_store(), .interface = "lo"};
  EXPECT_EQ(make_gloo_communicator(loopback)->size(), 1);
}

}  // namespace
}  // namespace motley
