#include "compiler/resharder.h"

#include <algorithm>

#include "base/error.h"

namespace motley {

Resharder::Resharder(TaskWriter& writer, const Placement& placement)
    : writer_(writer),
      placement_(&placement),
      heads_(writer.tables().tensors.size() * static_cast<std::size_t>(placement.seats()), kNone) {
  next_.reserve(4 * writer.tables().graph.ops.size());
  makers_.reserve(writer.tables().tensors.size());
  for (const TensorInfo& info : writer.tables().tensors) makers_.push_back(info.home);
}

void Resharder::begin(const Placement& placement, std::span<const NodeId> kept) {
  placement_ = &placement;
  values_.clear();
  const std::vector<TensorInfo>& infos = writer_.tables().tensors;
  const auto seats = static_cast<std::ptrdiff_t>(placement.seats());
  for (std::size_t tensor = 0; tensor < infos.size(); ++tensor) {
    const bool stays = infos[tensor].home == kNone && infos[tensor].kind != BatchLayout::Kind::kSplit;
    if (!stays) std::fill_n(heads_.begin() + static_cast<std::ptrdiff_t>(tensor) * seats, seats, kNone);
    makers_[tensor] = infos[tensor].home;
  }
  for (NodeId value : kept) put(value);
}

void Resharder::put(NodeId value) {
  const auto index = static_cast<std::size_t>(value);
  if (next_.size() <= index) next_.resize(index + 1, kNone);
  NodeId& head = heads_[slot(writer_.at(value).tensor, writer_.at(value).device)];
  next_[index] = head;
  head = value;
  values_.push_back(value);
}

void Resharder::set(NodeId value) { heads_[slot(writer_.at(value).tensor, writer_.at(value).device)] = value; }

NodeId Resharder::find(TensorId tensor, DeviceIndex device) const { return heads_[slot(tensor, device)]; }

NodeId Resharder::exact(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end) const {
  NodeId value = heads_[slot(tensor, device)];
  while (value != kNone && (writer_.at(value).begin != begin || writer_.at(value).end != end)) {
    value = next_[static_cast<std::size_t>(value)];
  }
  return value;
}

DeviceIndex Resharder::holder(TensorId tensor, DeviceIndex device) const {
  const CompilerTables& tables = writer_.tables();
  const GroupId home = tables.tensors[static_cast<std::size_t>(tensor)].home;
  if (placement_->on(home, device) != nullptr) return device;
  DeviceIndex nearest = kNone;
  double least = 0;
  for (const Replica& replica : placement_->replicas(home)) {
    const double seconds = tables.transfer_seconds(replica.device, device, tables.bytes(tensor, replica.samples()));
    if (nearest == kNone || seconds < least) {
      nearest = replica.device;
      least = seconds;
    }
  }
  return nearest;
}

NodeId Resharder::need(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end, OpId op) {
  const TensorInfo& info = writer_.tables().tensors[static_cast<std::size_t>(tensor)];
  if (info.kind == BatchLayout::Kind::kSplit) {
    const NodeId there = exact(tensor, device, begin, end);
    if (there != kNone) return there;
    if (info.home != kNone) return range(tensor, device, begin, end, op);
  } else {
    const NodeId there = find(tensor, device);
    if (there != kNone) return there;
  }
  NodeId value = kNone;
  if (info.persistent) {
    value = writer_.add_state(tensor, device);
  } else if (info.home == kNone) {
    value = writer_.add_input(tensor, device, begin, end);
  } else {
    MOTLEY_CHECK(info.kind == BatchLayout::Kind::kIndependent,
                 writer_.tables().graph.tensors[static_cast<std::size_t>(tensor)].name + " is not on its device");
    value = writer_.transfer(op, find(tensor, holder(tensor, device)), device);
  }
  put(value);
  return value;
}

NodeId Resharder::cut(NodeId value, std::int64_t begin, std::int64_t end, OpId op) {
  const TaskValue& whole = writer_.at(value);
  const NodeId there = exact(whole.tensor, whole.device, begin, end);
  if (there != kNone) return there;
  const NodeId part = writer_.slice(op, value, begin, end);
  put(part);
  return part;
}

// A value of the device that starts at `begin` and ends at `end` at the latest.
NodeId Resharder::piece(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end, OpId op) {
  NodeId local = kNone;
  std::int64_t next_local = end;
  for (NodeId v = find(tensor, device); v != kNone; v = next_[static_cast<std::size_t>(v)]) {
    const TaskValue& value = writer_.at(v);
    if (value.begin <= begin && value.end > begin) {
      if (local == kNone || value.end > writer_.at(local).end) local = v;
    } else if (value.begin > begin) {
      next_local = std::min(next_local, value.begin);
    }
  }
  if (local != kNone) return cut(local, begin, std::min(end, writer_.at(local).end), op);
  const auto replicas = placement_->replicas(maker(tensor));
  const auto replica = std::upper_bound(replicas.begin(), replicas.end(), begin,
                                        [](std::int64_t sample, const Replica& one) { return sample < one.end; });
  MOTLEY_CHECK(replica != replicas.end(), "no replica has sample " + std::to_string(begin));
  const NodeId source = exact(tensor, replica->device, replica->begin, replica->end);
  MOTLEY_CHECK(source != kNone, writer_.tables().graph.tensors[static_cast<std::size_t>(tensor)].name);
  const NodeId received = writer_.transfer(op, cut(source, begin, std::min(next_local, replica->end), op), device);
  put(received);
  return received;
}

NodeId Resharder::range(TensorId tensor, DeviceIndex device, std::int64_t begin, std::int64_t end, OpId op) {
  std::vector<NodeId> parts;
  for (std::int64_t at = begin; at < end; at = writer_.at(parts.back()).end) {
    parts.push_back(piece(tensor, device, at, end, op));
  }
  if (parts.size() == 1) return parts[0];
  const NodeId joined = writer_.concat(op, parts);
  put(joined);
  return joined;
}

}  // namespace motley
