#include "runtime/emulated_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/fake_clock.h"
#include "tests/runtime/ranks.h"

namespace motley {
namespace {

constexpr Seconds kLong{60};
constexpr Bytes kMessage{2'500'000};  // 0.1 s at 200 Mbps = 25 MB/s

// One rank with a clock of its own, which starts at zero like everybody's and is moved by what the rank waits for.
struct EmulatedRank {
  Communicator& communicator;
  FakeClock& clock;
  const Seconds start = clock.now();
  std::vector<char> data = std::vector<char>(kMessage.value);

  double now() const { return (clock.now() - start).value; }
  std::unique_ptr<Pending> send(int peer) { return communicator.send(data.data(), kMessage, peer, 0); }
  std::unique_ptr<Pending> receive(int peer) { return communicator.receive(data.data(), kMessage, peer, 0); }
};

class EmulatedCommunicatorTest : public testing::Test {
 protected:
  void on_ranks(const std::vector<std::string>& ports, const std::function<void(EmulatedRank&)>& body) {
    const auto store = make_memory_store();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < static_cast<int>(ports.size()); ++rank) {
      threads.emplace_back([&, rank] {
        const auto clock = std::make_shared<FakeClock>();
        const auto communicator = make_emulated_communicator(
            make_gloo_communicator({.store = store, .rank = rank, .size = static_cast<int>(ports.size())}),
            parse_emulation(ports[rank]), clock, kLong);
        EmulatedRank self{*communicator, *clock};
        body(self);
        communicator->barrier(kAllRanks, kLong);
      });
    }
  }
};

TEST_F(EmulatedCommunicatorTest, TheSlowerPortAndBothLatenciesCount) {
  on_ranks({"bandwidth=200Mbps,latency=1ms", "bandwidth=400Mbps,latency=2ms"}, [](EmulatedRank& self) {
    const bool sender = self.communicator.rank() == 0;
    (sender ? self.send(1) : self.receive(0))->wait(kLong);
    EXPECT_NEAR(self.now(), sender ? 0.100 : 0.103, 1e-9);
  });
  on_ranks({"bandwidth=200Mbps,latency=1ms", "bandwidth=400Mbps,latency=2ms"}, [](EmulatedRank& self) {
    const bool sender = self.communicator.rank() == 1;
    (sender ? self.send(0) : self.receive(1))->wait(kLong);
    EXPECT_NEAR(self.now(), sender ? 0.100 : 0.103, 1e-9);
  });
}

TEST_F(EmulatedCommunicatorTest, BothWaysDoNotDisturbEachOther) {
  on_ranks({"bandwidth=200Mbps", "bandwidth=200Mbps"}, [](EmulatedRank& self) {
    const int peer = 1 - self.communicator.rank();
    auto sent = self.send(peer);
    self.receive(peer)->wait(kLong);
    sent->wait(kLong);
    EXPECT_NEAR(self.now(), 0.1, 1e-9);
  });
}

TEST_F(EmulatedCommunicatorTest, MessagesOfOneSenderQueue) {
  on_ranks({"bandwidth=200Mbps", "", ""}, [](EmulatedRank& self) {
    if (self.communicator.rank() == 0) {
      auto first = self.send(1);
      auto second = self.send(2);
      second->wait(kLong);
      first->wait(kLong);
      EXPECT_NEAR(self.now(), 0.2, 1e-9);
    } else {
      self.receive(0)->wait(kLong);
      EXPECT_NEAR(self.now(), 0.1 * self.communicator.rank(), 1e-9);
    }
  });
}

TEST_F(EmulatedCommunicatorTest, MessagesToOneReceiverQueue) {
  on_ranks({"bandwidth=200Mbps", "", ""}, [](EmulatedRank& self) {
    if (self.communicator.rank() == 0) {
      auto first = self.receive(1);
      std::vector<char> other(kMessage.value);
      auto second = self.communicator.receive(other.data(), kMessage, 2, 0);
      second->wait(kLong);
      EXPECT_NEAR(self.now(), 0.1, 1e-9);
      first->wait(kLong);
      EXPECT_NEAR(self.now(), 0.2, 1e-9);
    } else {
      self.send(0)->wait(kLong);
    }
  });
}

TEST_F(EmulatedCommunicatorTest, ALateReceiverKeepsTheMessageWaiting) {
  on_ranks({"bandwidth=200Mbps,latency=1ms", "latency=1ms"}, [](EmulatedRank& self) {
    if (self.communicator.rank() == 0) {
      self.send(1)->wait(kLong);
      EXPECT_NEAR(self.now(), 0.55, 1e-9);  // 0.45 + 0.1
    } else {
      self.clock.advance(Seconds(0.45));
      self.receive(0)->wait(kLong);
      EXPECT_NEAR(self.now(), 0.552, 1e-9);  // ... + 2 * 1 ms
    }
  });
}

TEST_F(EmulatedCommunicatorTest, ALateSenderKeepsTheReceiverWaiting) {
  on_ranks({"bandwidth=200Mbps", ""}, [](EmulatedRank& self) {
    if (self.communicator.rank() == 0) self.clock.advance(Seconds(0.3));
    (self.communicator.rank() == 0 ? self.send(1) : self.receive(0))->wait(kLong);
    EXPECT_NEAR(self.now(), 0.4, 1e-9);
  });
}

TEST_F(EmulatedCommunicatorTest, AllReduceTakesTheRingsTimeAfterTheLastEntry) {
  const std::vector<std::string> ports = {"bandwidth=200Mbps,latency=1ms", "bandwidth=400Mbps,latency=1ms",
                                          "latency=1ms"};
  on_ranks(ports, [](EmulatedRank& self) {
    std::vector<float> values(750'000, 1.0f);  // 3 MB
    self.clock.advance(Seconds(0.2 * self.communicator.rank()));
    self.communicator.all_reduce(kAllRanks, values.data(), 750'000, DType::kFloat32, kLong);
    // 0.4 + 2 * 2/3 * 3 MB / 25 MB/s + 2 * 2 * (1 + 1) ms
    EXPECT_NEAR(self.now(), 0.4 + 0.16 + 0.008, 1e-9);
    EXPECT_THAT(values, testing::Each(3.0f));
  });
}

TEST_F(EmulatedCommunicatorTest, AllReduceWaitsForAMembersPort) {
  on_ranks({"bandwidth=200Mbps", "bandwidth=200Mbps"}, [](EmulatedRank& self) {
    const bool sender = self.communicator.rank() == 0;
    auto message = sender ? self.send(1) : self.receive(0);
    std::vector<float> values(250'000);  // 1 MB: 2 * 1/2 * 1 MB / 25 MB/s = 40 ms
    self.communicator.all_reduce(kAllRanks, values.data(), 250'000, DType::kFloat32, kLong);
    EXPECT_NEAR(self.now(), 0.1 + 0.04, 1e-9);
    message->wait(kLong);
  });
}

TEST_F(EmulatedCommunicatorTest, OtherCollectivesTakeTheirTime) {
  on_ranks({"bandwidth=200Mbps,latency=1ms", "latency=1ms", "latency=1ms"}, [](EmulatedRank& self) {
    std::vector<char> all(3 * kMessage.value);
    self.communicator.barrier(kAllRanks, kLong);  // ceil(log2 3) * 2 ms
    EXPECT_NEAR(self.now(), 0.004, 1e-9);
    self.communicator.broadcast(kAllRanks, all.data(), kMessage, 1, kLong);  // 0.1 s + 2 * 2 ms
    EXPECT_NEAR(self.now(), 0.108, 1e-9);
    self.communicator.all_gather(kAllRanks, self.data.data(), all.data(), kMessage, kLong);  // 2 * (0.1 s + 2 ms)
    EXPECT_NEAR(self.now(), 0.312, 1e-9);
  });
}

TEST_F(EmulatedCommunicatorTest, NoLimitsNoTime) {
  on_ranks({"", ""}, [](EmulatedRank& self) {
    float value = 2;
    self.communicator.all_reduce(kAllRanks, &value, 1, DType::kFloat32, kLong);
    (self.communicator.rank() == 0 ? self.send(1) : self.receive(0))->wait(kLong);
    EXPECT_EQ(value, 4);
    EXPECT_EQ(self.now(), 0);
  });
}

}  // namespace
}  // namespace motley
