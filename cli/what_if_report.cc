#include "cli/what_if_report.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "cli/text_table.h"

namespace motley {
namespace {

std::string rounded(double value) { return formatted(value < 1000 ? "%.3g" : "%.0f", value); }
std::string exact(double value) { return nlohmann::json(value).dump(); }

// RFC 4180.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + csv_cell(cells[i]);
  return line + "\n";
}

double price_of_a_million(const Outcome& outcome) {
  constexpr double kHour = 3600;
  return *outcome.price / kHour * 1e6 / outcome.samples_per_second();
}

std::string name_of(const Outcome& outcome) {
  std::string name;
  for (const std::string& value : outcome.values) name += (name.empty() ? "" : ", ") + value;
  return name;
}

// By how much it is faster with twice of its first bottleneck; of what does not fit, whether it does then.
std::string doubled(const Outcome& outcome) {
  if (outcome.bottlenecks.empty()) return "-";
  for (const Remedy& remedy : outcome.remedies) {
    if (remedy.iteration.value <= 0) continue;
    if (!outcome.feasible()) return "fits";
    if (remedy.change.ends_with(outcome.bottlenecks.front().first)) return times(outcome.iteration / remedy.iteration);
  }
  return "-";
}

// What would make the fastest scenario faster; or make one fit, when none does.
std::string remedy_table(const WhatIf& sweep) {
  const Outcome* fastest = nullptr;
  for (const Outcome& outcome : sweep.outcomes) {
    if (outcome.remedies.empty()) continue;
    const bool faster = fastest == nullptr || outcome.samples_per_second() > fastest->samples_per_second();
    if (faster) fastest = &outcome;
  }
  if (fastest == nullptr) return "";
  const std::string name = name_of(*fastest);
  TextTable table({(name.empty() ? "" : name + ", ") + fastest->strategy + " with", "> per iteration", "> faster"});
  for (const Remedy& remedy : fastest->remedies) {
    const bool fits = remedy.iteration.value > 0;
    table.add({remedy.change, fits ? to_string(remedy.iteration) : "does not fit",
               fits && fastest->feasible() ? times(fastest->iteration / remedy.iteration) : "-"});
  }
  return "\n" + table.to_string();
}

std::string cheapest_line(const WhatIf& sweep, double wanted) {
  if (wanted <= 0) return "";
  const Outcome* const best = cheapest(sweep, wanted);
  const std::string goal = "\n" + rounded(wanted) + " samples/s";
  if (best == nullptr) {
    const auto has_price = [](const Outcome& outcome) { return outcome.price.has_value(); };
    return goal + (std::ranges::any_of(sweep.outcomes, has_price)
                       ? ": none that has a price does as many\n"
                       : ": there are no prices; add prices: {KIND: NUMBER} to "
                         "the cluster file\n");
  }
  const std::string name = name_of(*best);
  return goal + " at the lowest price: " + (name.empty() ? "this cluster" : name) + ", " + rounded(*best->price) +
         " per hour for " + rounded(best->samples_per_second()) + " samples/s, " + rounded(price_of_a_million(*best)) +
         " per million samples\n";
}

}  // namespace

std::string what_if_table(const WhatIf& sweep, double wanted) {
  const auto any = [&](auto has) { return std::ranges::any_of(sweep.outcomes, has); };
  const bool priced = any([](const Outcome& outcome) { return outcome.price.has_value(); });
  const bool drawn = any([](const Outcome& outcome) { return outcome.noise.has_value(); });
  std::vector<std::string> headings = sweep.axes;
  const auto head = [&](std::initializer_list<const char*> more) {
    headings.insert(headings.end(), more.begin(), more.end());
  };
  head({"> devices", "strategy", "> per iteration", "> samples/s"});
  if (drawn) head({"> median", "> p95"});
  if (priced) head({"> per hour", "> per million"});
  head({"> of memory", "> estimated", "bottleneck", "> of it", "> doubled"});
  TextTable table(headings);
  std::string reasons;
  for (const Outcome& outcome : sweep.outcomes) {
    std::vector<std::string> row = outcome.values;
    const auto add = [&](bool known, const std::function<std::string()>& cell) { row.push_back(known ? cell() : "-"); };
    const bool simulated = outcome.iteration.value > 0;
    const bool known_bottleneck = !outcome.bottlenecks.empty();
    add(outcome.devices > 0, [&] { return std::to_string(outcome.devices); });
    add(!outcome.strategy.empty(), [&] { return outcome.strategy; });
    add(simulated, [&] { return to_string(outcome.iteration); });
    row.push_back(outcome.feasible() ? rounded(outcome.samples_per_second()) : "does not fit");
    if (drawn) {
      add(outcome.noise.has_value(), [&] { return to_string(outcome.noise->median); });
      add(outcome.noise.has_value(), [&] { return to_string(outcome.noise->p95); });
    }
    if (priced) {
      add(outcome.price.has_value(), [&] { return rounded(*outcome.price); });
      add(outcome.price.has_value() && outcome.feasible(), [&] { return rounded(price_of_a_million(outcome)); });
    }
    add(simulated, [&] { return percent(outcome.peak / outcome.capacity); });
    add(simulated, [&] { return percent(outcome.estimated_share); });
    add(known_bottleneck, [&] { return outcome.bottlenecks.front().first; });
    add(known_bottleneck && outcome.feasible(), [&] { return percent(outcome.bottlenecks.front().second); });
    row.push_back(doubled(outcome));
    table.add(row);
    if (outcome.feasible()) continue;
    const std::string name = name_of(outcome);
    reasons += (name.empty() ? "" : name + ": ") + outcome.reasons.front();
    if (outcome.reasons.size() > 1) reasons += " (and " + std::to_string(outcome.reasons.size() - 1) + " more)";
    reasons += "\n";
  }
  std::string told;
  if (drawn) {
    told = "median and p95 of " + std::to_string(sweep.draws) + " draws; costs that are estimates deviate by " +
           percent(sweep.noise) + " (--noise)\n";
  }
  return table.to_string() + told + reasons + remedy_table(sweep) + cheapest_line(sweep, wanted);
}

std::string what_if_csv(const WhatIf& sweep) {
  std::vector<std::string> headings = sweep.axes;
  for (const char* heading : {"batch", "devices", "strategy", "fits", "iteration_seconds", "samples_per_second",
                              "median_seconds", "p95_seconds", "price_per_hour", "fullest_device", "peak_memory_bytes",
                              "memory_bytes", "estimated_share", "bottleneck", "bottleneck_share"}) {
    headings.emplace_back(heading);
  }
  std::string text = csv_line(headings);
  for (const Outcome& outcome : sweep.outcomes) {
    std::vector<std::string> row = outcome.values;
    const auto add = [&](bool known, const std::function<std::string()>& cell) { row.push_back(known ? cell() : ""); };
    const bool simulated = outcome.iteration.value > 0;
    const bool known_bottleneck = !outcome.bottlenecks.empty();
    for (const std::string& cell : {std::to_string(outcome.batch), std::to_string(outcome.devices), outcome.strategy,
                                    std::string(outcome.feasible() ? "true" : "false")}) {
      row.push_back(cell);
    }
    add(simulated, [&] { return exact(outcome.iteration.value); });
    add(outcome.feasible(), [&] { return exact(outcome.samples_per_second()); });
    add(outcome.noise.has_value(), [&] { return exact(outcome.noise->median.value); });
    add(outcome.noise.has_value(), [&] { return exact(outcome.noise->p95.value); });
    add(outcome.price.has_value(), [&] { return exact(*outcome.price); });
    row.push_back(outcome.fullest);
    add(simulated, [&] { return std::to_string(outcome.peak.value); });
    add(simulated, [&] { return std::to_string(outcome.capacity.value); });
    add(simulated, [&] { return exact(outcome.estimated_share); });
    add(known_bottleneck, [&] { return outcome.bottlenecks.front().first; });
    add(known_bottleneck, [&] { return exact(outcome.bottlenecks.front().second); });
    text += csv_line(row);
  }
  return text;
}

nlohmann::json to_json(const WhatIf& sweep, double wanted) {
  nlohmann::json json{{"axes", sweep.axes}, {"outcomes", nlohmann::json::array()}};
  for (const Outcome& outcome : sweep.outcomes) {
    nlohmann::json row{{"values", outcome.values},
                       {"batch", outcome.batch},
                       {"devices", outcome.devices},
                       {"strategy", outcome.strategy},
                       {"feasible", outcome.feasible()},
                       {"reasons", outcome.reasons},
                       {"iteration_seconds", nullptr},
                       {"samples_per_second", outcome.samples_per_second()},
                       {"bottlenecks", nlohmann::json::array()},
                       {"remedies", nlohmann::json::array()}};
    if (outcome.iteration.value > 0) {
      row["iteration_seconds"] = outcome.iteration.value;
      row["estimated_share"] = outcome.estimated_share;
      row["fullest"] = {{"device", outcome.fullest},
                        {"peak_memory_bytes", outcome.peak.value},
                        {"memory_bytes", outcome.capacity.value}};
    }
    for (const auto& [resource, share] : outcome.bottlenecks) {
      row["bottlenecks"].push_back({{"resource", resource}, {"share", share}});
    }
    for (const Remedy& remedy : outcome.remedies) {
      const bool fits = remedy.iteration.value > 0;
      row["remedies"].push_back(
          {{"change", remedy.change}, {"iteration_seconds", fits ? nlohmann::json(remedy.iteration.value) : nullptr}});
    }
    if (outcome.price) row["price_per_hour"] = *outcome.price;
    if (outcome.noise) {
      row["noise"] = {{"median_seconds", outcome.noise->median.value}, {"p95_seconds", outcome.noise->p95.value}};
    }
    json["outcomes"].push_back(std::move(row));
  }
  if (sweep.draws > 0) {
    json["draws"] = sweep.draws;
    json["noise"] = sweep.noise;
  }
  if (wanted > 0) {
    const Outcome* const best = cheapest(sweep, wanted);
    json["cheapest"] = best != nullptr ? nlohmann::json(best - sweep.outcomes.data()) : nlohmann::json(nullptr);
  }
  return json;
}

}  // namespace motley
