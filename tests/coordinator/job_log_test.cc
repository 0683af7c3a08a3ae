#include "coordinator/job_log.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

proto::JobEvent metrics(std::int64_t iteration) {
  proto::JobEvent event;
  event.mutable_metrics()->set_iteration(iteration);
  event.mutable_metrics()->set_loss(1);
  return event;
}

proto::JobEvent saved(const std::string& file) {
  proto::JobEvent event;
  event.set_saved(file);
  return event;
}

TEST(JobLog, TellsEveryWatcherAllEventsInOrder) {
  JobLog log;
  for (int i = 1; i <= 3; ++i) log.add(metrics(i));
  for (int watcher = 0; watcher < 2; ++watcher) {
    std::size_t place = 0;
    for (int i = 1; i <= 3; ++i) EXPECT_EQ(log.next(place, Seconds(0))->metrics().iteration(), i);
    EXPECT_FALSE(log.next(place, Seconds(0)));
  }
}

TEST(JobLog, BeyondItsLimitTheOldestMetricsGiveWay) {
  const std::size_t each = metrics(1).ByteSizeLong();
  JobLog log(10 * each);
  log.add(saved("first"));
  std::size_t watching = 0;
  EXPECT_EQ(log.next(watching, Seconds(0))->saved(), "first");
  for (int i = 1; i <= 100; ++i) {
    log.add(metrics(i));
    EXPECT_EQ(log.next(watching, Seconds(0))->metrics().iteration(), i);  // who watches on misses nothing
  }
  log.add(saved("last"));
  EXPECT_LE(log.bytes(), 10 * each);
  std::size_t place = 0;
  EXPECT_EQ(log.next(place, Seconds(0))->saved(), "first");
  EXPECT_GT(log.next(place, Seconds(0))->metrics().iteration(), 90);
  proto::JobEvent event;
  while (const auto next = log.next(place, Seconds(0))) event = *next;
  EXPECT_EQ(event.saved(), "last");
}

}  // namespace
}  // namespace motley
