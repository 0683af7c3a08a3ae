#include "compiler/schedule/schedule.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/suggest.h"
#include "compiler/schedule/kinds.h"

namespace motley {
namespace {

struct Named {
  const char* name;
  MadeSchedule (*make)(const Pipeline&);
  bool synchronous = true;
};
constexpr std::array kSchedules = {
    Named{"gpipe", gpipe},
    Named{"1f1b", one_f_one_b},
    Named{"pipedream-flush", pipedream_flush},
    Named{"interleaved-1f1b", interleaved},
    Named{"zb-h1", zb_h1},
    Named{"zb-h2", zb_h2},
    Named{"zb-v", zb_v},
    Named{"chimera", chimera},
    Named{"bpipe", bpipe},
    Named{"graphpipe", graphpipe},
    Named{"pipedream", pipedream, false},
    Named{"pipedream-2bw", pipedream_2bw, false},
};

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += " " + name;
  return all;
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  names.reserve(kSchedules.size());
  for (const Named& schedule : kSchedules) names.emplace_back(schedule.name);
  return names;
}

std::vector<std::string> synchronous_schedules() {
  std::vector<std::string> names;
  for (const Named& schedule : kSchedules) {
    if (schedule.synchronous) names.emplace_back(schedule.name);
  }
  return names;
}

std::variant<Schedule, NotSchedulable> make_schedule(std::string_view name, const Pipeline& pipeline) {
  for (const Named& schedule : kSchedules) {
    if (name == schedule.name) return schedule.make(pipeline);
  }
  const std::vector<std::string> names = schedule_names();
  throw Error(ErrorKind::kInvalidInput, "there is no schedule " + std::string(name) +
                                            did_you_mean(std::string(name), names) + "; there are" + joined(names));
}

}  // namespace motley
