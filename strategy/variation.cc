#include "strategy/variation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/suggest.h"
#include "graph/cast.h"

namespace motley {
namespace {

using What = Variation::What;

struct Form {
  const char* name;
  What what;
  bool needs_which;
  bool takes_which;
  const char* values;
};
constexpr std::array<Form, 8> kForms = {{
    {"batch", What::kBatch, false, false, "whole numbers of samples, 1 or more"},
    {"dtype", What::kDType, false, false, "f32, f16, bf16 or f64"},
    {"nodes", What::kNodes, true, true, "whole numbers, 0 or more"},
    {"devices", What::kDevices, true, true, "whole numbers from 1 to 4096"},
    {"kind", What::kKind, true, true, "kinds of devices"},
    {"bandwidth", What::kBandwidth, false, true, "rates such as 25Gbps, or factors such as x2"},
    {"lost", What::kLost, false, false, "names of nodes, each, or none"},
    {"speed", What::kSpeed, true, true, "factors above 0"},
}};

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<double> factor(std::string_view text) {
  const std::optional<double> value = number<double>(text);
  return value && *value > 0 && *value < 1e9 ? value : std::nullopt;
}

bool is_valid(What what, const std::string& value) {
  const auto whole = [&](std::int64_t least, std::int64_t most) {
    const std::optional<std::int64_t> n = number<std::int64_t>(value);
    return n && *n >= least && *n <= most;
  };
  switch (what) {
    case What::kBatch:
      return whole(1, std::int64_t{1} << 40);
    case What::kDType:
      return parse_floating(value).has_value();
    case What::kNodes:
      return whole(0, 65536);
    case What::kDevices:
      return whole(1, 4096);
    case What::kKind:
    case What::kLost:
      return true;
    case What::kBandwidth:
      if (value.starts_with('x')) return factor(value.substr(1)).has_value();
      try {
        return parse_bytes_per_second(value).value > 0;
      } catch (const Error&) {
        return false;
      }
    case What::kSpeed:
      return factor(value).has_value();
  }
  return false;
}

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::kInvalidInput, message); }

bool matches(const std::string& which, const std::string& name) {
  if (!which.ends_with('*')) return which == name;
  return name.starts_with(which.substr(0, which.size() - 1));
}

[[noreturn]] void refuse_unknown(const Cluster& cluster, const Variation& variation,
                                 const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 16;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) list += " " + names[i];
  if (names.size() > kShown) list += " and " + std::to_string(names.size() - kShown) + " more";
  refuse(cluster.source + ": nothing is called " + variation.which + did_you_mean(variation.which, names) +
         " to vary the " + variation.title() + "; there are" + list);
}

void change_bandwidth(Cluster& cluster, const Variation& variation, const std::string& value) {
  const auto devices = static_cast<VertexIndex>(cluster.devices.size());
  bool found = false;
  std::vector<std::string> names;
  for (Link& link : cluster.links) {
    const std::array<std::string, 3> called = {link.name, cluster.vertex_name(link.a), cluster.vertex_name(link.b)};
    names.push_back(link.name);
    const auto meant = [&](const std::string& name) { return matches(variation.which, name); };
    const bool between_hosts = link.a >= devices && link.b >= devices;
    if (variation.which.empty() ? !between_hosts : std::ranges::none_of(called, meant)) continue;
    found = true;
    const BytesPerSecond before = link.bandwidth;
    link.bandwidth =
        value.starts_with('x') ? before * *factor(std::string_view(value).substr(1)) : parse_bytes_per_second(value);
    for (RatePoint& point : link.curve) point.rate = std::min(point.rate * (link.bandwidth / before), link.bandwidth);
  }
  if (!found && variation.which.empty()) {
    refuse(cluster.source + ": no link joins nodes or switches: name the links whose bandwidth is varied");
  }
  if (!found) refuse_unknown(cluster, variation, names);
  cluster.finish();
}

void change_speed(Scenario& scenario, const Variation& variation, double speed) {
  bool found = false;
  std::vector<std::string> names;
  for (std::size_t d = 0; d < scenario.speeds.size(); ++d) {
    const Device& device = scenario.cluster.devices[d];
    const std::array<std::string, 3> called = {device.name, scenario.cluster.nodes[device.node].name, device.kind};
    names.insert(names.end(), called.begin(), called.end());
    if (std::ranges::none_of(called, [&](const std::string& name) { return matches(variation.which, name); })) continue;
    scenario.speeds[d] *= speed;
    found = true;
  }
  if (!found) refuse_unknown(scenario.cluster, variation, names);
}

}  // namespace

std::string Variation::title() const {
  const auto form = std::ranges::find(kForms, what, &Form::what);
  return form->name + (which.empty() ? "" : " of " + which);
}

Variation parse_variation(const std::string& text) {
  const std::string key = text.substr(0, text.find('='));
  const std::string name = key.substr(0, key.find(':'));
  const auto form = std::ranges::find(kForms, name, &Form::name);
  std::vector<std::string> names;
  names.reserve(kForms.size());
  for (const Form& known : kForms) names.emplace_back(known.name);
  if (form == kForms.end()) {
    std::string list;
    for (const std::string& known : names) list += " " + known;
    refuse("\"" + text + "\": nothing is called " + name + did_you_mean(name, names) + " to vary; there are" + list);
  }
  Variation variation{form->what, key == name ? "" : key.substr(name.size() + 1), {}};
  if (variation.which.empty() && (form->needs_which || key != name)) {
    refuse("\"" + text + "\": say of what, as in " + name + ":NAME=VALUE");
  }
  if (!variation.which.empty() && !form->takes_which) {
    refuse("\"" + text + "\": " + name + " is the whole job's: write " + name + "=VALUE,...");
  }
  for (std::size_t at = key.size(); at < text.size();) {
    const std::size_t end = std::min(text.find(',', at + 1), text.size());
    variation.values.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  if (variation.values.empty()) refuse("\"" + text + "\": add = and " + form->values + ", parted by commas");
  const auto wrong = std::ranges::find_if(
      variation.values, [&](const std::string& value) { return value.empty() || !is_valid(form->what, value); });
  if (wrong != variation.values.end()) {
    refuse("\"" + text + "\": the values of " + name + " are " + form->values + ", not \"" + *wrong + "\"");
  }
  return variation;
}

Scenario make_scenario(const ClusterReader& read, std::int64_t batch, const std::vector<Variation>& variations,
                       const std::vector<std::string>& values) {
  Scenario scenario;
  scenario.batch = batch;
  ClusterChanges changes;
  for (std::size_t i = 0; i < variations.size(); ++i) {
    const std::string& which = variations[i].which;
    switch (variations[i].what) {
      case What::kBatch:
        scenario.batch = *number<std::int64_t>(values[i]);
        break;
      case What::kDType:
        scenario.dtype = parse_floating(values[i]);
        break;
      case What::kNodes:
        changes.nodes[which] = *number<std::int64_t>(values[i]);
        break;
      case What::kDevices:
        changes.devices[which] = *number<std::int64_t>(values[i]);
        break;
      case What::kKind:
        changes.kinds[which] = values[i];
        break;
      case What::kLost:
        if (values[i] != "none") changes.lost.insert(values[i]);
        break;
      case What::kBandwidth:
      case What::kSpeed:
        break;  // of the cluster once it is there
    }
  }
  scenario.cluster = read(changes);
  scenario.speeds.assign(scenario.cluster.devices.size(), 1);
  for (std::size_t i = 0; i < variations.size(); ++i) {
    if (variations[i].what == What::kBandwidth) change_bandwidth(scenario.cluster, variations[i], values[i]);
    if (variations[i].what == What::kSpeed) change_speed(scenario, variations[i], *factor(values[i]));
  }
  return scenario;
}

}  // namespace motley
