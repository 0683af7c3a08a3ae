#pragma once

// Lists of numbers, one after the other in one array.

#include <cstdint>
#include <span>
#include <vector>

namespace motley {

class FlatLists {
 public:
  struct Entry {
    std::int32_t list;  // counted from the first of the new ones
    std::int32_t item;
  };

  void reserve(std::size_t lists) { begins_.reserve(lists + 1); }
  // Adds `lists` more lists; those of one list keep their order.
  void append(std::int32_t lists, std::span<const Entry> entries) {
    const auto first = static_cast<std::int32_t>(begins_.size());
    // While they are filled, begins_[first + list] is where the list's next item goes; in the end, where it ends, which
    // is where the next one begins.
    begins_.resize(first + lists + 1, 0);
    std::int32_t* next = begins_.data() + first;
    for (const Entry& entry : entries) ++next[entry.list + 1];
    next[0] = begins_[first - 1];
    for (std::int32_t list = 0; list < lists; ++list) next[list + 1] += next[list];
    items_.resize(next[lists]);
    begins_.pop_back();
    for (const Entry& entry : entries) items_[next[entry.list]++] = entry.item;
  }
  std::span<const std::int32_t> operator[](std::int32_t list) const {
    return {items_.data() + begins_[list], static_cast<std::size_t>(begins_[list + 1] - begins_[list])};
  }
  // Fetches what stands a cache line after `list` into the processor's caches, for who will walk on from it.
  void fetch_after(std::int32_t list) const {
    constexpr std::int32_t kLine = 16;
    __builtin_prefetch(begins_.data() + list + kLine);
    __builtin_prefetch(items_.data() + begins_[list] + kLine);
  }

 private:
  std::vector<std::int32_t> begins_{0};  // and where the last one ends
  std::vector<std::int32_t> items_;
};

}  // namespace motley
