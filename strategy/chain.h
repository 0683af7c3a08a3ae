#pragma once

// A model as a chain of op groups, in the model's order, and where a pipeline may cut it. Thread-safe once made.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace motley {

class Chain {
 public:
  explicit Chain(const Graph& graph);  // which must outlive it

  std::size_t size() const { return order_.size(); }
  GroupId group(std::size_t place) const { return order_[place]; }
  // Not where a group takes what one behind it makes.
  bool may_cut(std::size_t before) const { return may_cut_[before] != 0; }
  // By place of the cut, from 0 to size(): bytes of activations that cross it.
  std::vector<double> crossing(std::int64_t samples) const;

 private:
  const Graph& graph_;
  std::vector<GroupId> order_;
  std::vector<std::size_t> place_;  // by group
  std::vector<char> may_cut_;
};

}  // namespace motley
