#pragma once

// The same work on many things, on all cores.

#include <cstddef>
#include <functional>
#include <stop_token>

namespace motley {

// 0 or less: one per core.
int thread_count(int wanted);

// Calls work(0), ..., work(count - 1), each once, begun in this order, on that many threads, of which the caller's is
// one; returns when all have ended. After a stop or an exception no more are begun; the first exception is thrown here.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work,
                  const std::stop_token& stop = {});

}  // namespace motley
