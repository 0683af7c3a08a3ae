#include "graph/joined_ops.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace motley {
namespace {

class UnionFind {
 public:
  explicit UnionFind(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::int32_t find(std::int32_t id) {
    while (parent_[id] != id) {
      parent_[id] = parent_[parent_[id]];
      id = parent_[id];
    }
    return id;
  }
  // The smaller id stands for the set.
  void join(std::int32_t a, std::int32_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::int32_t> parent_;
};

// Edges between sets, by the op that stands for each.
using Edges = std::vector<std::vector<std::int32_t>>;

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : graph_(graph), sets_(graph.ops.size()) {
    while (count_ < graph.ops.size() && graph.ops[count_].kind == OpKind::kForward) ++count_;
  }

  std::vector<std::vector<OpId>> run() {
    for (std::size_t id = 0; id < count_; ++id) join_forced(static_cast<OpId>(id));
    join_independent();
    join_cycles();
    return ordered();
  }

 private:
  static bool cannot_be_cut(const BatchLayout& layout) {
    return layout.kind == BatchLayout::Kind::kMixed || layout.kind == BatchLayout::Kind::kPartialSum ||
           layout.kind == BatchLayout::Kind::kPartialMean;
  }

  template <class Function>
  void for_each_user(TensorId tensor, Function&& function) const {
    for (OpId user : graph_.consumers[tensor]) {
      if (static_cast<std::size_t>(user) < count_) function(user);
    }
  }

  void join_forced(OpId id) {
    const Op& op = graph_.ops[id];
    for (TensorId output : op.outputs) {
      if (output == kNone) continue;
      const Tensor& tensor = graph_.tensors[output];
      if (cannot_be_cut(tensor.layout)) for_each_user(output, [&](OpId user) { sets_.join(id, user); });
      if (tensor.alias_of == kNone) continue;
      const OpId maker = graph_.tensors[tensor.alias_of].producer;
      if (maker != kNone) sets_.join(id, maker);
    }
    for (TensorId written : op.writes) for_each_user(written, [&](OpId user) { sets_.join(id, user); });
  }

  // What is made of parameters and constants alone joins the first op that needs it: no other user can come before that
  // one, so no cycle arises. Later users get its output across groups.
  void join_independent() {
    std::vector<char> independent(count_, 1);  // by set
    std::vector<std::int32_t> set_of(count_);
    for (std::size_t id = 0; id < count_; ++id) {
      const std::int32_t set = set_of[id] = sets_.find(static_cast<OpId>(id));
      for (TensorId output : graph_.ops[id].outputs) {
        if (output == kNone) continue;
        if (graph_.tensors[output].layout.kind != BatchLayout::Kind::kIndependent) independent[set] = 0;
      }
    }
    std::vector<OpId> anchor(count_, kNone);  // by set: the first op beyond such sets that needs it
    const auto needed_by = [&](OpId user) { return independent[set_of[user]] ? anchor[set_of[user]] : user; };
    for (std::size_t i = count_; i-- > 0;) {  // users of a set come after its last op but for its own views
      const std::int32_t set = set_of[i];
      if (!independent[set]) continue;
      for (TensorId output : graph_.ops[i].outputs) {
        if (output == kNone) continue;
        for_each_user(output, [&](OpId user) {
          const OpId at = set_of[user] == set ? kNone : needed_by(user);
          if (at != kNone && (anchor[set] == kNone || at < anchor[set])) anchor[set] = at;
        });
      }
    }
    for (std::size_t set = 0; set < count_; ++set) {
      if (anchor[set] != kNone) sets_.join(static_cast<OpId>(set), anchor[set]);
    }
  }

  Edges edges() {
    Edges next(count_);
    for (std::size_t id = 0; id < count_; ++id) {
      const std::int32_t to = sets_.find(static_cast<OpId>(id));
      for (TensorId input : graph_.ops[id].inputs) {
        const OpId maker = graph_.tensors[input].producer;
        if (maker != kNone && sets_.find(maker) != to) next[sets_.find(maker)].push_back(to);
      }
    }
    for (auto& list : next) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    return next;
  }

  // Strongly connected components become one set each (Tarjan, SIAM J. Computing 1972), without recursion.
  void join_cycles() {
    const Edges next = edges();
    std::vector<std::int32_t> index(count_, -1);
    std::vector<std::int32_t> low(count_, 0);
    std::vector<char> on_stack(count_, 0);
    std::vector<std::int32_t> stack;
    std::vector<std::pair<std::int32_t, std::size_t>> path;
    std::int32_t counter = 0;
    const auto enter = [&](std::int32_t vertex) {
      index[vertex] = low[vertex] = counter++;
      stack.push_back(vertex);
      on_stack[vertex] = 1;
      path.emplace_back(vertex, 0);
    };
    for (std::size_t start = 0; start < count_; ++start) {
      const auto root = static_cast<std::int32_t>(start);
      if (sets_.find(root) != root || index[root] != -1) continue;
      enter(root);
      while (!path.empty()) {
        const std::int32_t vertex = path.back().first;
        if (path.back().second < next[vertex].size()) {
          const std::int32_t to = next[vertex][path.back().second++];
          if (index[to] == -1) {
            enter(to);
          } else if (on_stack[to]) {
            low[vertex] = std::min(low[vertex], index[to]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[path.back().first] = std::min(low[path.back().first], low[vertex]);
        if (low[vertex] != index[vertex]) continue;
        for (std::int32_t member = -1; member != vertex;) {
          member = stack.back();
          stack.pop_back();
          on_stack[member] = 0;
          sets_.join(member, vertex);
        }
      }
    }
  }

  // Kahn's algorithm; among sets that could come next, the one whose first op comes first in the program.
  std::vector<std::vector<OpId>> ordered() {
    const Edges next = edges();
    std::vector<std::int32_t> waits(count_, 0);
    for (const auto& list : next) {
      for (std::int32_t to : list) ++waits[to];
    }
    std::vector<std::vector<OpId>> members(count_);
    std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
    for (std::size_t id = 0; id < count_; ++id) {
      const std::int32_t set = sets_.find(static_cast<OpId>(id));
      members[set].push_back(static_cast<OpId>(id));
      if (set == static_cast<std::int32_t>(id) && waits[set] == 0) ready.push(set);
    }
    std::vector<std::vector<OpId>> order;
    while (!ready.empty()) {
      const std::int32_t set = ready.top();
      ready.pop();
      order.push_back(std::move(members[set]));
      for (std::int32_t to : next[set]) {
        if (--waits[to] == 0) ready.push(to);
      }
    }
    return order;
  }

  const Graph& graph_;
  std::size_t count_ = 0;  // forward ops come first
  UnionFind sets_;
};

}  // namespace

std::vector<std::vector<OpId>> join_ops(const Graph& graph) { return Joiner(graph).run(); }

}  // namespace motley
