#include "strategy/policy/choices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace motley {

namespace {

constexpr std::size_t kAloneOfToken = 8;       // devices of one token that are a choice each
constexpr std::size_t kPartsOfToken = 4;       // of each size
constexpr std::size_t kMostTokensInTurn = 24;  // the fastest 1, 2, ... tokens; all but one node

bool same_devices(const std::vector<Share>& a, const std::vector<Share>& b) {
  return std::ranges::equal(a, b, [](const Share& x, const Share& y) { return x.device == y.device; });
}

}  // namespace

std::vector<Share> normalised(std::vector<Share> shares) {
  double sum = 0;
  for (const Share& share : shares) sum += share.weight;
  for (Share& share : shares) share.weight /= sum;
  return shares;
}

double common_share(const std::vector<Share>& a, const std::vector<Share>& b) {
  double common = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].device == b[j].device) {
      common += std::min(a[i++].weight, b[j++].weight);
    } else {
      ++(a[i].device < b[j].device ? i : j);
    }
  }
  return common;
}

Choices::Choices(const Situation& situation) : situation_(situation) {
  const Cluster& cluster = situation.evaluator.cluster();
  const auto& tokens = situation.tokens;
  for (const std::vector<DeviceIndex>& token : tokens) {
    for (std::size_t i = 0; i < std::min(token.size(), kAloneOfToken); ++i) add_set({token[i]});
    for (std::size_t size = 2; size < token.size(); size *= 2) {
      for (std::size_t part = 0; part < kPartsOfToken && (part + 1) * size <= token.size(); ++part) {
        const auto begin = token.begin() + static_cast<std::ptrdiff_t>(part * size);
        add_set({begin, begin + static_cast<std::ptrdiff_t>(size)});
      }
    }
    add_set(token);
  }
  std::map<std::string, std::vector<DeviceIndex>> kinds;
  std::vector<DeviceIndex> all(cluster.devices.size());
  std::iota(all.begin(), all.end(), 0);
  for (const DeviceIndex device : all) kinds[cluster.devices[device].kind].push_back(device);
  const auto all_but = [&](const std::vector<DeviceIndex>& without) {
    std::vector<DeviceIndex> rest;
    std::ranges::set_difference(all, without, std::back_inserter(rest));
    return rest;
  };
  add_set(all);
  for (const auto& [kind, devices] : kinds) {
    add_set(devices);
    add_set(all_but(devices));
  }
  for (const Node& node : cluster.nodes) {
    std::vector<DeviceIndex> devices = node.devices;
    std::ranges::sort(devices);
    add_set(devices);
    if (cluster.nodes.size() <= kMostTokensInTurn) add_set(all_but(devices));
  }
  std::vector<std::size_t> by_speed(tokens.size());
  std::iota(by_speed.begin(), by_speed.end(), 0);
  std::ranges::stable_sort(by_speed, std::greater(),
                           [&](std::size_t token) { return situation.speed[tokens[token].front()]; });
  std::vector<DeviceIndex> fastest;
  for (std::size_t i = 0; i < std::min(by_speed.size(), kMostTokensInTurn); ++i) {
    const auto& token = tokens[by_speed[i]];
    fastest.insert(fastest.end(), token.begin(), token.end());
    add_set(fastest);
  }
}

void Choices::add_set(std::vector<DeviceIndex> devices) {
  if (devices.empty() || static_cast<std::int64_t>(devices.size()) > situation_.evaluator.batch()) return;
  std::ranges::sort(devices);
  std::vector<Share> shares;
  shares.reserve(devices.size());
  for (const DeviceIndex device : devices) shares.push_back({device, situation_.speed[device]});
  if (std::ranges::none_of(all_, [&](const Choice& one) { return same_devices(one.shares, shares); })) {
    append(normalised(std::move(shares)));
  }
}

std::int32_t Choices::append(std::vector<Share> shares) {
  const auto& tokens = situation_.tokens;
  Choice choice;
  std::vector<float> of_token(tokens.size(), 0);
  double speed = 0;
  for (const Share& share : shares) {
    of_token[static_cast<std::size_t>(situation_.token_of[share.device])] += static_cast<float>(share.weight);
    speed += situation_.speed[share.device];
  }
  choice.lead = static_cast<std::int32_t>(std::ranges::max_element(of_token) - of_token.begin());
  std::vector<std::size_t> used;
  for (std::size_t token = 0; token < tokens.size(); ++token) {
    if (of_token[token] > 0) used.push_back(token);
  }
  if (shares.size() > 1) {
    for (const std::size_t a : used) {
      for (const std::size_t b : used)
        choice.narrowest = std::min(choice.narrowest, situation_.rate[a * tokens.size() + b]);
    }
  }
  // How far its slowest device lags when the batch is divided by this choice's shares.
  double slowest = 0;
  for (const Share& share : shares) {
    slowest = std::max(slowest, share.weight * situation_.iteration[share.device]);
  }
  double bytes = 0;
  for (const GroupWork& one : situation_.work) bytes += static_cast<double>(one.parameter_bytes);
  const auto n = static_cast<double>(shares.size()), devices = static_cast<double>(situation_.speed.size());
  features_.insert(features_.end(),
                   {static_cast<float>(n / devices), static_cast<float>(std::log2(n) / 3), static_cast<float>(speed),
                    log_ratio(slowest / situation_.ideal), shares.size() == 1 ? 1.0F : 0.0F,
                    shares.size() == 1 ? -4.0F : log_ratio(bytes / choice.narrowest / situation_.ideal),
                    static_cast<float>(used.size()) / static_cast<float>(tokens.size()), n == devices ? 1.0F : 0.0F});
  tokens_.insert(tokens_.end(), of_token.begin(), of_token.end());
  choice.shares = std::move(shares);
  all_.push_back(std::move(choice));
  return static_cast<std::int32_t>(all_.size()) - 1;
}

std::int32_t Choices::add(const std::vector<Share>& shares) {
  std::vector<Share> wanted = normalised(shares);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    constexpr double kSame = 1 - 1e-9;
    if (same_devices(all_[i].shares, wanted) && common_share(all_[i].shares, wanted) > kSame) {
      return static_cast<std::int32_t>(i);
    }
  }
  return append(std::move(wanted));
}

Choices::Nearest Choices::nearest(const std::vector<Share>& shares) const {
  const std::vector<Share> wanted = normalised(shares);
  Nearest best;
  bool same = false;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const bool alike = same_devices(all_[i].shares, wanted);
    const double common = common_share(all_[i].shares, wanted);
    if (same == alike ? common <= best.common : same) continue;
    best = {static_cast<std::int32_t>(i), common};
    same = alike;
  }
  return best;
}

}  // namespace motley
