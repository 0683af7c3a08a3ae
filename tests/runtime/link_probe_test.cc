#include "runtime/link_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/emulated_communicator.h"
#include "tests/runtime/fake_clock.h"
#include "tests/runtime/ranks.h"

namespace motley {
namespace {

constexpr Seconds kLong{60};

// Probes an emulated network whose time is worked out, not waited for.
class LinkProbeTest : public testing::Test {
 protected:
  // What all ranks found; the same on each.
  std::vector<ProbedLink> probe(const std::vector<std::string>& ports, LinkProbeOptions options) {
    const auto store = make_memory_store();
    const int size = static_cast<int>(ports.size());
    std::vector<ProbedNetwork> results(size);
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank, options]() mutable {
          const auto clock = std::make_shared<FakeClock>();
          options.clock = clock;
          const auto communicator =
              make_emulated_communicator(make_gloo_communicator({.store = store, .rank = rank, .size = size}),
                                         parse_emulation(ports[rank]), clock, kLong);
          std::vector<char> scratch(2 * options.largest.value);
          const Seconds start = clock->now();
          results[rank] = probe_links(*communicator, *communicator, scratch.data(), options);
          if (rank == 0) took_ = clock->now() - start;
          communicator->barrier(kAllRanks, kLong);
        });
      }
    }
    for (const auto& result : results) {
      EXPECT_EQ(result.links.size(), results[0].links.size());
      for (std::size_t i = 0; i < result.links.size(); ++i) {
        EXPECT_EQ(result.links[i].bandwidth, results[0].links[i].bandwidth);
      }
    }
    return results[0].links;
  }

  Seconds took_;
};

TEST_F(LinkProbeTest, FindsLatencyAndBandwidthOfEachWay) {
  const auto links = probe({"bandwidth=200Mbps,latency=1ms", "bandwidth=1Gbps,latency=1ms", "latency=3ms"},
                           {.largest = Bytes(1 << 20), .repeats = 3});
  ASSERT_EQ(links.size(), 6u);  // 0-1, 0-2, 1-0, 1-2, 2-0, 2-1
  const double latencies[] = {0.002, 0.004, 0.002, 0.004, 0.004, 0.004};
  const double bandwidths[] = {25e6, 25e6, 25e6, 125e6, 25e6, 125e6};
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(links[i].latency.value, latencies[i], 1e-6) << i;
    EXPECT_NEAR(links[i].bandwidth.value / bandwidths[i], 1, 1e-3) << i;
    EXPECT_NEAR(links[i].bandwidth_both_ways.value / bandwidths[i], 1, 1e-3) << i;
    EXPECT_LT(links[i].fit_error, 1e-6) << i;
  }
  EXPECT_EQ(links[4].from, 2);
  EXPECT_EQ(links[4].to, 0);
}

TEST_F(LinkProbeTest, MessagesKeepTheirTimes) {
  const auto links = probe({"bandwidth=200Mbps,latency=1ms", ""},
                           {.smallest = Bytes(25'000), .largest = Bytes(400'000), .repeats = 3});
  ASSERT_EQ(links[0].messages.size(), 3u);
  EXPECT_EQ(links[0].messages[1].bytes, Bytes(100'000));
  EXPECT_NEAR(links[0].messages[1].time.value, 0.001 + 0.004, 1e-9);  // 100 kB / 25 MB/s
  EXPECT_NEAR(links[0].messages[1].spread.value, 0, 1e-9);
}

TEST_F(LinkProbeTest, ASlowLinkGetsSmallerMessages) {
  const auto links = probe({"bandwidth=1Mbps", ""}, {.repeats = 3, .budget = Seconds(20)});
  EXPECT_LT(links[0].messages.back().bytes, Bytes(1 << 20));  // which alone takes 8.4 s
  EXPECT_NEAR(links[0].bandwidth.value, 125e3, 100);
  EXPECT_LT(took_, Seconds(25));
}

TEST_F(LinkProbeTest, PairsThatShareNothingDoNotSlowEachOther) {
  const auto links =
      probe({"bandwidth=200Mbps", "bandwidth=200Mbps", "bandwidth=200Mbps,latency=1ms", "bandwidth=100Mbps"},
            {.largest = Bytes(1 << 18), .repeats = 3});
  ASSERT_EQ(links.size(), 12u);
  for (const auto& link : links) {
    EXPECT_NEAR(link.bandwidth_all_pairs / link.bandwidth, 1, 0.01) << link.from << link.to;
  }
}

class LinkFitTest : public testing::Test {
 protected:
  // Adds a message of 1 ms + bytes / 10 MB/s, and what held it up.
  void add(std::int64_t bytes, double late = 0) {
    const Seconds time(1e-3 + static_cast<double>(bytes) / 1e7 + late);
    link_.messages.push_back({Bytes(bytes), time, Seconds(0), time});
  }
  ProbedLink link_;
};

TEST_F(LinkFitTest, FindsTheLine) {
  for (const std::int64_t bytes : {1000, 16'000, 256'000, 4'096'000}) add(bytes);
  fit_link(link_);
  EXPECT_NEAR(link_.latency.value, 1e-3, 1e-9);
  EXPECT_NEAR(link_.bandwidth.value, 1e7, 1);
  EXPECT_NEAR(link_.fit_error, 0, 1e-9);
}

TEST_F(LinkFitTest, ABurstOfShortMessagesDoesNotBendIt) {
  add(1000);
  add(64'000, -5e-3);  // through the shaper's bucket
  for (const std::int64_t bytes : {256'000, 1'024'000, 4'096'000}) add(bytes);
  fit_link(link_);
  EXPECT_NEAR(link_.latency.value, 1e-3, 1e-9);
  EXPECT_NEAR(link_.bandwidth.value, 1e7, 1);
  EXPECT_GT(link_.fit_error, 0.1);
}

TEST_F(LinkFitTest, NoiseNeverMakesItNegativeOrInfinite) {
  add(1000, 0.050);
  add(4000, -0.0009);
  fit_link(link_);
  EXPECT_NEAR(link_.bandwidth.value, 4000 / 0.0005, 1);  // 1 + 0.4 - 0.9 ms in all
  EXPECT_GE(link_.latency, Seconds(0));
}

TEST(LinkProbe, MeasuresALoopbackNetwork) {
  EXPECT_THAT(run_ranks(3,
                        [](Communicator& communicator) {
                          LinkProbeOptions options{.largest = Bytes(1 << 18), .repeats = 3};
                          std::vector<char> scratch(2 * options.largest.value);
                          const auto network = probe_links(communicator, communicator, scratch.data(), options);
                          for (const auto& link : network.links) EXPECT_GT(link.bandwidth.value, 0);
                          EXPECT_EQ(network.links.size(), 6u);
                          EXPECT_GT(network.message_work, Seconds(0));
                          EXPECT_LT(network.message_work_per_byte, Seconds(1e-6));  // 1 MB a second
                        }),
              testing::Each(""));
}

}  // namespace
}  // namespace motley
