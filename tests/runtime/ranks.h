#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/gloo_communicator.h"

namespace motley {

// Runs `body` on `size` ranks, each a thread with a communicator over `store`. Returns what each threw, "" for nothing.
inline std::vector<std::string> run_ranks(int size, const std::function<void(Communicator&)>& body,
                                          std::shared_ptr<Store> store = make_memory_store()) {
  std::vector<std::string> errors(size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Rendezvous rendezvous{.store = store, .rank = rank, .size = size};
        const auto communicator = make_gloo_communicator(rendezvous);
        body(*communicator);
        communicator->barrier(kAllRanks, Seconds(60));  // nobody leaves while others still talk to it
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  threads.clear();
  return errors;
}

}  // namespace motley
