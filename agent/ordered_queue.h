#pragma once

// Work of one stream: jobs are put in any order and taken by their places, 0, 1, 2, ... One taker, any putters.

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace motley {

template <class Job>
class OrderedQueue {
 public:
  void put(std::size_t place, Job job) {
    {
      const std::scoped_lock lock(mutex_);
      jobs_.emplace(place, std::move(job));
    }
    changed_.notify_one();
  }

  // Waits for the job of the next place; nothing once the queue is closed.
  std::optional<Job> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || (!jobs_.empty() && jobs_.begin()->first == next_); });
    if (closed_) return std::nullopt;
    std::optional<Job> job(std::move(jobs_.begin()->second));
    jobs_.erase(jobs_.begin());
    ++next_;
    return job;
  }

  // Starts again from place 0; all jobs must have been taken.
  void restart() {
    const std::scoped_lock lock(mutex_);
    next_ = 0;
  }

  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
      jobs_.clear();
    }
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, Job> jobs_;
  std::size_t next_ = 0;
  bool closed_ = false;
};

}  // namespace motley
