#pragma once

// A heap of numbered items whose keys may change: the least first, of equal ones the one that came first. Four children
// per item, so that a comparison's neighbours share a cache line. No allocation once the largest size has been seen.

#include <cstdint>
#include <vector>

namespace motley {

class IndexedHeap {
 public:
  struct Item {
    double key;
    std::int64_t order;  // of coming
    std::int32_t id;
    bool operator<(const Item& other) const { return key != other.key ? key < other.key : order < other.order; }
  };

  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  const Item& top() const { return items_.front(); }

  // `id` must not be in the heap; ids are small.
  void push(std::int32_t id, double key) {
    append(id, key);
    rise(items_.size() - 1);
  }
  void pop() {
    const Item last = items_.back();
    items_.pop_back();
    if (items_.empty()) return;
    place(0, last);
    sink(0);
  }
  void change(std::int32_t id, double key) {
    const std::size_t at = places_[id];
    const bool less = key < items_[at].key;
    items_[at].key = key;
    if (less) {
      rise(at);
    } else {
      sink(at);
    }
  }

  // Many at once: append() and assign() leave the heap out of order until restore(), which takes time linear in its
  // size.
  void append(std::int32_t id, double key) {
    if (places_.size() <= static_cast<std::size_t>(id)) places_.resize(id + 1);
    places_[id] = static_cast<std::int32_t>(items_.size());
    items_.push_back({key, came_++, id});
  }
  void assign(std::int32_t id, double key) { items_[places_[id]].key = key; }
  void restore() {
    for (std::size_t at = items_.size() / kChildren + 1; at-- > 0;) {
      if (at < items_.size()) sink(at);
    }
  }

 private:
  static constexpr std::size_t kChildren = 4;

  void place(std::size_t at, const Item& item) {
    items_[at] = item;
    places_[item.id] = static_cast<std::int32_t>(at);
  }
  void rise(std::size_t at) {
    const Item item = items_[at];
    while (at > 0 && item < items_[(at - 1) / kChildren]) {
      place(at, items_[(at - 1) / kChildren]);
      at = (at - 1) / kChildren;
    }
    place(at, item);
  }
  void sink(std::size_t at) {
    const Item item = items_[at];
    while (true) {
      const std::size_t first = kChildren * at + 1;
      if (first >= items_.size()) break;
      std::size_t least = first;
      const std::size_t end = first + kChildren < items_.size() ? first + kChildren : items_.size();
      for (std::size_t child = first + 1; child < end; ++child) {
        if (items_[child] < items_[least]) least = child;
      }
      if (!(items_[least] < item)) break;
      place(at, items_[least]);
      at = least;
    }
    place(at, item);
  }

  std::vector<Item> items_;
  std::vector<std::int32_t> places_;  // by id
  std::int64_t came_ = 0;
};

}  // namespace motley
