#include "runtime/message_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace motley {
namespace {

// Two sides whose notes are under way until they are delivered.
class MessageMatcherTest : public testing::Test {
 protected:
  std::deque<MessageMatcher::Note> to_left_, to_right_;
  MessageMatcher left_{[this](MessageMatcher::Note note) { to_right_.push_back(note); }};
  MessageMatcher right_{[this](MessageMatcher::Note note) { to_left_.push_back(note); }};
  std::vector<int> sent_, received_;  // messages, in the order in which they started

  void send(int message, std::int32_t tag) {
    left_.send(tag, [this, message] { sent_.push_back(message); });
  }
  void receive(int message, std::int32_t tag) {
    right_.receive(tag, [this, message] { received_.push_back(message); });
  }
  bool deliver(bool left) {
    auto& notes = left ? to_left_ : to_right_;
    if (notes.empty()) return false;
    const MessageMatcher::Note note = notes.front();
    notes.pop_front();
    (left ? left_ : right_).heard(note);
    return true;
  }
  void deliver_all() {
    while (deliver(true) || deliver(false)) {
    }
  }
};

TEST_F(MessageMatcherTest, NothingStartsAlone) {
  send(1, 7);
  receive(2, 8);
  deliver_all();
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(received_.empty());
}

TEST_F(MessageMatcherTest, APostedReceiveLetsTheSendStartAtOnce) {
  receive(1, 7);
  deliver_all();
  send(1, 7);
  EXPECT_EQ(sent_, std::vector<int>{1});  // before the other side hears of it
  deliver_all();
  EXPECT_EQ(received_, std::vector<int>{1});
}

TEST_F(MessageMatcherTest, OtherOrderOfReceivesDoesNotBlock) {
  send(1, 7);
  send(2, 8);
  receive(2, 8);  // waits for the second before it posts the first
  deliver_all();
  EXPECT_EQ(received_, std::vector<int>{2});
  receive(1, 7);
  deliver_all();
  EXPECT_EQ(received_, (std::vector<int>{2, 1}));
}

TEST_F(MessageMatcherTest, EqualTagsMatchInOrder) {
  send(1, 7);
  receive(1, 7);
  receive(2, 7);
  send(2, 7);
  deliver_all();
  EXPECT_EQ(sent_, (std::vector<int>{1, 2}));
  EXPECT_EQ(received_, (std::vector<int>{1, 2}));
}

TEST_F(MessageMatcherTest, BothSidesStartInOneOrderWhateverHappens) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    sent_.clear();
    received_.clear();
    std::vector<int> sends = {0, 1, 2, 3, 4, 5}, receives = sends;  // message m has tag m
    std::shuffle(sends.begin(), sends.end(), random);
    std::shuffle(receives.begin(), receives.end(), random);
    while (!sends.empty() || !receives.empty()) {
      switch (random() % 4) {
        case 0:
          if (!sends.empty()) send(sends.back(), sends.back()), sends.pop_back();
          break;
        case 1:
          if (!receives.empty()) receive(receives.back(), receives.back()), receives.pop_back();
          break;
        default:
          deliver(random() % 2 == 0);
      }
    }
    deliver_all();
    ASSERT_EQ(sent_.size(), 6u);
    ASSERT_EQ(sent_, received_);
  }
}

}  // namespace
}  // namespace motley
