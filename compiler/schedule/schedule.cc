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
  Abilities needs;
  bool synchronous = true;
};
constexpr std::array kSchedules = {
    Named{"gpipe", gpipe, {}},
    Named{"1f1b", one_f_one_b, {}},
    Named{"pipedream-flush", pipedream_flush, {}},
    Named{"interleaved-1f1b", interleaved, {}},
    Named{"zb-h1", zb_h1, {}},
    Named{"zb-h2", zb_h2, {}},
    Named{"zb-v", zb_v, {}},
    Named{"chimera", chimera, {}},
    Named{"bpipe", bpipe, {.move = true}},
    Named{"graphpipe", graphpipe, {}},
    Named{"pipedream", pipedream, {}, false},
    Named{"pipedream-2bw", pipedream_2bw, {}, false},
};

bool suits(const Named& schedule, const Abilities& programs) { return programs.move || !schedule.needs.move; }

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += " " + name;
  return all;
}

}  // namespace

std::vector<std::string> schedule_names(Abilities programs) {
  std::vector<std::string> names;
  for (const Named& schedule : kSchedules) {
    if (suits(schedule, programs)) names.emplace_back(schedule.name);
  }
  return names;
}

std::vector<std::string> synchronous_schedules() {
  std::vector<std::string> names;
  for (const Named& schedule : kSchedules) {
    if (schedule.synchronous && suits(schedule, {})) names.emplace_back(schedule.name);
  }
  return names;
}

std::variant<Schedule, NotSchedulable> make_schedule(std::string_view name, const Pipeline& pipeline) {
  const std::vector<std::string> names = schedule_names(pipeline.programs);
  for (const Named& schedule : kSchedules) {
    if (name != schedule.name) continue;
    if (suits(schedule, pipeline.programs)) return schedule.make(pipeline);
    return NotSchedulable{std::string(name) +
                          " moves what micro-batches keep to other devices, which programs do not: choose one of" +
                          joined(names)};
  }
  throw Error(ErrorKind::kInvalidInput, "there is no schedule " + std::string(name) +
                                            did_you_mean(std::string(name), names) + "; there are" + joined(names));
}

}  // namespace motley
