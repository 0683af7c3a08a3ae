#include "graph/clustering.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "graph/joined_ops.h"
#include "graph/op_knowledge.h"

namespace motley {
namespace {

// Samples at which FLOPs and bytes are weighed; only their proportions matter.
std::int64_t typical_batch(const Graph& graph) {
  const std::int64_t batch = std::max<std::int64_t>(graph.min_batch, 16);
  return graph.max_batch > 0 ? std::min(batch, graph.max_batch) : batch;
}

std::string_view common_path(std::string_view a, std::string_view b) {
  std::size_t kept = 0;
  for (std::size_t i = 0;; ++i) {
    const bool a_ends = i == a.size() || a[i] == '.';
    const bool b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) kept = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, kept);
}

double depth(std::string_view path) {
  return path.empty() ? 0 : 1 + static_cast<double>(std::count(path.begin(), path.end(), '.'));
}

// A run of neighbouring sets.
struct Run {
  std::vector<OpId> ops;
  double weight = 0;  // share of the model's FLOPs and parameter bytes; all runs together: 1
  std::string module;
  std::size_t previous = 0;
  std::size_t next = 0;
  std::uint32_t version = 0;  // 0 also after the run was merged into its predecessor: see `alive`
  bool alive = true;
};

class Clusterer {
 public:
  Clusterer(Graph& graph, std::int32_t max_groups)
      : graph_(graph), max_groups_(static_cast<std::size_t>(max_groups)), batch_(typical_batch(graph)) {}

  void run() {
    std::vector<std::vector<OpId>> sets = join_ops(graph_);
    weigh();
    cuts_ = crossing_bytes(sets);
    runs_.resize(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      Run& run = runs_[i];
      run.ops = std::move(sets[i]);
      for (OpId op : run.ops) run.weight += weights_[op];
      run.module = graph_.ops[heaviest(run.ops)].module;
      run.previous = i - 1;
      run.next = i + 1;
    }
    merge();
    write();
  }

 private:
  void weigh() {
    weights_.assign(graph_.ops.size(), 0);
    std::vector<double> work(graph_.ops.size(), 0);
    std::vector<double> state(graph_.ops.size(), 0);
    double all_work = 0;
    double all_state = 0;
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      const Op& op = graph_.ops[id];
      if (op.kind != OpKind::kForward && !op.is_backward()) continue;
      const double flops_here = flops(graph_, op, batch_).value;
      work[op.is_backward() ? static_cast<std::size_t>(op.forward) : id] += flops_here;
      all_work += flops_here;
    }
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      if (graph_.tensors[id].role != TensorRole::kParameter || graph_.consumers[id].empty()) continue;
      const auto bytes = static_cast<double>(graph_.tensors[id].bytes(batch_).value);
      state[graph_.consumers[id].front()] += bytes;
      all_state += bytes;
    }
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      if (all_work > 0) weights_[id] += 0.5 * work[id] / all_work;
      if (all_state > 0) weights_[id] += 0.5 * state[id] / all_state;
    }
  }

  // By set: the bytes made up to it and used after it.
  std::vector<double> crossing_bytes(const std::vector<std::vector<OpId>>& sets) const {
    std::vector<std::size_t> set_of(graph_.ops.size(), 0);
    for (std::size_t i = 0; i < sets.size(); ++i) {
      for (OpId op : sets[i]) set_of[op] = i;
    }
    std::vector<std::size_t> last_use(graph_.tensors.size(), 0);  // by storage
    const auto storage = [&](std::size_t id) {
      const TensorId root = graph_.tensors[id].alias_of;
      return root == kNone ? id : static_cast<std::size_t>(root);
    };
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      for (OpId user : graph_.consumers[id]) {
        if (graph_.ops[user].kind != OpKind::kForward) continue;
        last_use[storage(id)] = std::max(last_use[storage(id)], set_of[user]);
      }
    }
    std::vector<double> change(sets.size() + 1, 0);
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      const Tensor& tensor = graph_.tensors[id];
      if (tensor.producer == kNone || storage(id) != id || graph_.ops[tensor.producer].kind != OpKind::kForward)
        continue;
      const std::size_t made = set_of[tensor.producer];
      if (last_use[id] <= made) continue;
      const auto bytes = static_cast<double>(tensor.bytes(batch_).value);
      change[made] += bytes;
      change[last_use[id]] -= bytes;
    }
    std::vector<double> crossing(sets.size(), 0);
    double alive = 0;
    for (std::size_t i = 0; i < sets.size(); ++i) crossing[i] = alive += change[i];
    return crossing;
  }

  OpId heaviest(const std::vector<OpId>& ops) const {
    return *std::max_element(ops.begin(), ops.end(), [&](OpId a, OpId b) { return weights_[a] < weights_[b]; });
  }

  struct Merge {
    double cost;
    std::size_t left;
    std::uint32_t left_version;
    std::uint32_t right_version;
    bool operator>(const Merge& other) const { return std::tie(cost, left) > std::tie(other.cost, other.left); }
  };

  void propose(std::size_t left) {
    const std::size_t right = runs_[left].next;
    if (right >= runs_.size()) return;
    const Run& a = runs_[left];
    const Run& b = runs_[right];
    const double share = a.weight + b.weight + 0.01 / static_cast<double>(max_groups_);
    const double together = 1 + depth(common_path(a.module, b.module));
    proposals_.push({share / ((cuts_[right - 1] + 1) * together), left, a.version, b.version});
  }

  void merge() {
    const double light = 0.5 / static_cast<double>(max_groups_);
    std::size_t count = runs_.size();
    for (std::size_t i = 0; i < runs_.size(); ++i) propose(i);
    while (!proposals_.empty()) {
      const Merge merge = proposals_.top();
      proposals_.pop();
      Run& left = runs_[merge.left];
      if (!left.alive || left.version != merge.left_version || left.next >= runs_.size()) continue;
      Run& right = runs_[left.next];
      if (right.version != merge.right_version) continue;
      if (count <= max_groups_ && std::min(left.weight, right.weight) >= light) continue;
      if (right.weight > left.weight) left.module = right.module;
      left.ops.insert(left.ops.end(), right.ops.begin(), right.ops.end());
      left.weight += right.weight;
      right.alive = false;
      left.next = right.next;
      if (left.next < runs_.size()) runs_[left.next].previous = merge.left;
      ++left.version;
      --count;
      propose(merge.left);
      if (merge.left > 0) propose(left.previous);
    }
  }

  // The module that all of the group's heavy ops are in; where they have none in common, that of the heaviest.
  std::string name_of(const std::vector<OpId>& ops) const {
    const Op& largest = graph_.ops[heaviest(ops)];
    std::string path = largest.module;
    for (OpId op : ops) {
      if (weights_[op] >= 0.1 * weights_[heaviest(ops)]) path = common_path(path, graph_.ops[op].module);
    }
    if (path.empty()) path = largest.module;
    return path.empty() ? largest.name : path;
  }

  void write() {
    graph_.groups.clear();
    std::map<std::string, int> uses;
    for (Run& run : runs_) {
      if (!run.alive) continue;
      std::sort(run.ops.begin(), run.ops.end());
      for (OpId op : run.ops) graph_.ops[op].group = static_cast<GroupId>(graph_.groups.size());
      std::string name = name_of(run.ops);
      const int use = ++uses[name];
      if (use > 1) name += "#" + std::to_string(use);
      graph_.groups.push_back({std::move(name), std::move(run.ops), {}});
    }
    std::vector<GroupId> owner(graph_.tensors.size(), kNone);
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      if (graph_.tensors[id].role != TensorRole::kParameter) continue;
      for (OpId user : graph_.consumers[id]) {
        const Op& op = graph_.ops[user];
        if (op.kind == OpKind::kForward && (owner[id] == kNone || op.group < owner[id])) owner[id] = op.group;
      }
      if (owner[id] != kNone) graph_.groups[owner[id]].parameters.push_back(static_cast<TensorId>(id));
    }
    for (Op& op : graph_.ops) {
      if (op.is_backward()) {
        op.group = graph_.ops[op.forward].group;
      } else if (op.kind == OpKind::kUpdate) {
        op.group = owner[op.inputs[0]];
      } else if (op.kind == OpKind::kGradientSum) {
        const TensorId of = graph_.tensors[op.outputs[0]].gradient_of;
        const OpId maker = graph_.tensors[of].producer;
        op.group = maker == kNone ? owner[of] : graph_.ops[maker].group;
      }
    }
  }

  Graph& graph_;
  std::size_t max_groups_;
  std::int64_t batch_;
  std::vector<double> weights_;  // by op; backward ops count with their forward op
  std::vector<double> cuts_;     // by set: bytes that cross from it to the next
  std::vector<Run> runs_;
  std::priority_queue<Merge, std::vector<Merge>, std::greater<>> proposals_;
};

}  // namespace

void cluster(Graph& graph, std::int32_t max_groups) {
  if (max_groups < 1) {
    throw Error(ErrorKind::kInvalidInput,
                "a bound of " + std::to_string(max_groups) + " op groups: there must be room for at least one");
  }
  Clusterer(graph, max_groups).run();
}

}  // namespace motley
