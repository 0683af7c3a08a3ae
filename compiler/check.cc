#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "compiler/deployment.h"

namespace motley {
namespace {

// One value's life while its program is walked.
enum class Life : std::uint8_t { kUnborn, kAlive, kReleased };

class Checker {
 public:
  explicit Checker(const Deployment& deployment) : deployment_(deployment) {}

  void run() {
    std::size_t count = 0;
    for (std::size_t p = 0; p < deployment_.programs.size(); ++p) {
      first_.push_back(count);
      count += deployment_.programs[p].instructions.size();
      if (p > 0 && deployment_.programs[p - 1].device >= deployment_.programs[p].device) {
        fail("programs are not ascending by device");
      }
    }
    joined_.resize(count);
    for (std::size_t i = 0; i < count; ++i) joined_[i] = i;
    for (const Program& program : deployment_.programs) {
      check_values(program);
      check_storages(program);
    }
    join_transfers();
    join_collectives();
    check_waits(count);
  }

 private:
  [[noreturn]] static void fail(const std::string& message) {
    throw Error(ErrorKind::kInternal, "the deployment is not sound: " + message);
  }

  static std::string name(const Program& program, std::size_t index) {
    static constexpr const char* kNames[] = {"compute",   "slice", "concat", "send", "receive",
                                             "allreduce", "sum",   "scale",  "fill"};
    const Instruction& instruction = program.instructions[index];
    std::string text = "device " + std::to_string(program.device) + ", instruction " + std::to_string(index) + " (" +
                       kNames[static_cast<int>(instruction.kind)];
    if (instruction.op != kNone) text += " of op " + std::to_string(instruction.op);
    return text + ")";
  }

  // Made once before it is used, released once and not used after.
  void check_values(const Program& program) {
    std::vector<Life> life(program.values.size(), Life::kUnborn);
    const auto at = [&](ValueId id, std::size_t index) -> Life& {
      if (id < 0 || static_cast<std::size_t>(id) >= life.size()) {
        fail(name(program, index) + ": no value " + std::to_string(id));
      }
      return life[static_cast<std::size_t>(id)];
    };
    for (std::size_t v = 0; v < life.size(); ++v) {
      const Value& value = program.values[v];
      if (value.alias_of != kNone && (value.alias_of < 0 || static_cast<std::size_t>(value.alias_of) >= life.size() ||
                                      program.values[static_cast<std::size_t>(value.alias_of)].alias_of != kNone)) {
        fail("device " + std::to_string(program.device) + ": value " + std::to_string(v) + " aliases an alias");
      }
      if (value.persistent) life[v] = Life::kAlive;
    }
    for (ValueId input : program.inputs) at(input, 0) = Life::kAlive;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const bool may_lack = instruction.kind == InstructionKind::kCompute;
      for (ValueId input : instruction.inputs) {
        if (input == kNone && may_lack) continue;
        if (at(input, i) != Life::kAlive) {
          fail(name(program, i) + " uses value " + std::to_string(input) + ", which is not alive");
        }
      }
      for (ValueId output : instruction.outputs) {
        if (output == kNone && may_lack) continue;
        if (at(output, i) != Life::kUnborn)
          fail(name(program, i) + " makes value " + std::to_string(output) + " again");
        life[static_cast<std::size_t>(output)] = Life::kAlive;
      }
      for (ValueId released : instruction.releases) {
        if (at(released, i) != Life::kAlive || program.values[static_cast<std::size_t>(released)].persistent ||
            program.is_loss(released)) {
          fail(name(program, i) + " must not release value " + std::to_string(released));
        }
        life[static_cast<std::size_t>(released)] = Life::kReleased;
      }
    }
    for (std::size_t v = 0; v < life.size(); ++v) {
      const bool stays = program.values[v].persistent || program.is_loss(static_cast<ValueId>(v));
      if (life[v] != (stays ? Life::kAlive : Life::kReleased)) {
        fail("device " + std::to_string(program.device) + ": value " + std::to_string(v) +
             (life[v] == Life::kUnborn ? " is never made" : " is never released"));
      }
    }
  }

  // An output of the very tensor whose storage it shares is written over what was there: an update, a sum, a copy into
  // state. What was there is of no use any more, and nobody writes over what a message may still be reading.
  void check_storages(const Program& program) {
    std::vector<std::size_t> storage(program.values.size());
    for (std::size_t v = 0; v < storage.size(); ++v) {
      storage[v] = program.values[v].alias_of == kNone ? v : static_cast<std::size_t>(program.values[v].alias_of);
    }
    std::vector<char> stale(program.values.size()), leaves(program.values.size());
    std::vector<std::vector<ValueId>> made(program.values.size());  // by storage
    const auto note = [&](ValueId id) { made[storage[static_cast<std::size_t>(id)]].push_back(id); };
    for (std::size_t v = 0; v < storage.size(); ++v) {
      if (program.values[v].persistent) note(static_cast<ValueId>(v));
    }
    for (ValueId input : program.inputs) note(input);
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      for (ValueId input : instruction.inputs) {
        if (input == kNone) continue;
        if (stale[static_cast<std::size_t>(input)]) {
          fail(name(program, i) + " uses value " + std::to_string(input) + ", which was written over");
        }
        if (instruction.kind == InstructionKind::kSend) leaves[storage[static_cast<std::size_t>(input)]] = 1;
      }
      for (ValueId output : instruction.outputs) {
        if (output == kNone) continue;
        const std::size_t place = storage[static_cast<std::size_t>(output)];
        const bool over = place != static_cast<std::size_t>(output) &&
                          program.values[place].tensor == program.values[static_cast<std::size_t>(output)].tensor;
        const bool at_once =
            instruction.kind == InstructionKind::kCompute || instruction.kind == InstructionKind::kScale;
        if (over && at_once && leaves[place]) {
          fail(name(program, i) + " writes over value " + std::to_string(place) + ", which may still be on its way");
        }
        if (over) {
          for (ValueId id : made[place]) stale[static_cast<std::size_t>(id)] = 1;
        }
        note(output);
      }
    }
  }

  // Instructions that wait for each other become one vertex of the wait graph.
  std::size_t root(std::size_t vertex) {
    while (joined_[vertex] != vertex) vertex = joined_[vertex] = joined_[joined_[vertex]];
    return vertex;
  }

  template <class Visit>
  void each(Visit visit) {
    for (std::size_t p = 0; p < deployment_.programs.size(); ++p) {
      const Program& program = deployment_.programs[p];
      for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        visit(program, i, program.instructions[i], first_[p] + i);
      }
    }
  }

  void join_transfers() {
    struct End {
      std::size_t vertex;
      Bytes bytes;
      std::string name;
    };
    std::map<std::tuple<DeviceIndex, DeviceIndex, std::int32_t>, End> sends;
    each([&](const Program& program, std::size_t i, const Instruction& instruction, std::size_t vertex) {
      if (instruction.kind != InstructionKind::kSend) return;
      if (instruction.inputs.size() != 1) fail(name(program, i) + " needs one input");
      const Bytes bytes = program.values[static_cast<std::size_t>(instruction.inputs[0])].bytes;
      if (!sends.insert({{program.device, instruction.peer, instruction.tag}, {vertex, bytes, name(program, i)}})
               .second) {
        fail(name(program, i) + " repeats tag " + std::to_string(instruction.tag));
      }
    });
    each([&](const Program& program, std::size_t i, const Instruction& instruction, std::size_t vertex) {
      if (instruction.kind != InstructionKind::kReceive) return;
      if (instruction.outputs.size() != 1) fail(name(program, i) + " needs one output");
      const auto send = sends.find({instruction.peer, program.device, instruction.tag});
      if (send == sends.end()) fail(name(program, i) + " has no send with tag " + std::to_string(instruction.tag));
      if (send->second.bytes != program.values[static_cast<std::size_t>(instruction.outputs[0])].bytes) {
        fail(name(program, i) + " and its send differ in bytes");
      }
      joined_[root(vertex)] = root(send->second.vertex);
      sends.erase(send);
    });
    if (!sends.empty()) fail(sends.begin()->second.name + " has no receive");
  }

  void join_collectives() {
    std::vector<std::vector<std::pair<DeviceIndex, std::size_t>>> entered(deployment_.collectives.size());
    each([&](const Program& program, std::size_t i, const Instruction& instruction, std::size_t vertex) {
      if (instruction.kind != InstructionKind::kAllReduce) return;
      if (instruction.collective < 0 || static_cast<std::size_t>(instruction.collective) >= entered.size()) {
        fail(name(program, i) + " is of no collective");
      }
      const auto index = static_cast<std::size_t>(instruction.collective);
      Bytes bytes;
      for (ValueId input : instruction.inputs) bytes += program.values[static_cast<std::size_t>(input)].bytes;
      if (bytes != deployment_.collectives[index].bytes || instruction.inputs.size() != instruction.outputs.size()) {
        fail(name(program, i) + " brings other bytes than its collective has");
      }
      entered[index].emplace_back(program.device, vertex);
    });
    for (std::size_t c = 0; c < entered.size(); ++c) {
      std::vector<DeviceIndex> devices;
      for (const auto& [device, vertex] : entered[c]) {
        devices.push_back(device);
        joined_[root(vertex)] = root(entered[c][0].second);
      }
      if (devices != deployment_.collectives[c].members || devices.empty()) {
        fail("collective " + std::to_string(c) + " is not entered once by each of its members and by nobody else");
      }
    }
  }

  // Streams in program order, values after what makes them; joined instructions are one vertex. Kahn's algorithm: what
  // is left over waits in a circle. That two members enter two collectives in different orders shows as such a circle.
  void check_waits(std::size_t count) {
    std::vector<std::vector<std::size_t>> after(count);
    std::vector<std::size_t> pending(count);
    for (std::size_t p = 0; p < deployment_.programs.size(); ++p) {
      const Program& program = deployment_.programs[p];
      std::vector<std::size_t> maker(program.values.size(), count);
      std::vector<std::size_t> last(4, count);
      for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const Instruction& instruction = program.instructions[i];
        const std::size_t vertex = root(first_[p] + i);
        const auto wait_for = [&](std::size_t earlier) {
          if (earlier == count) return;
          after[earlier].push_back(vertex);
          ++pending[vertex];
        };
        std::size_t& stream = last[static_cast<std::size_t>(stream_of(instruction.kind))];
        wait_for(stream);
        stream = vertex;
        for (ValueId input : instruction.inputs) {
          if (input != kNone) wait_for(maker[static_cast<std::size_t>(input)]);
        }
        for (ValueId output : instruction.outputs) {
          if (output != kNone) maker[static_cast<std::size_t>(output)] = vertex;
        }
      }
    }
    std::vector<std::size_t> ready;
    for (std::size_t v = 0; v < count; ++v) {
      if (root(v) == v && pending[v] == 0) ready.push_back(v);
    }
    for (std::size_t next = 0; next < ready.size(); ++next) {
      for (std::size_t vertex : after[ready[next]]) {
        if (--pending[vertex] == 0) ready.push_back(vertex);
      }
    }
    each([&](const Program& program, std::size_t i, const Instruction&, std::size_t vertex) {
      if (pending[root(vertex)] != 0) fail(name(program, i) + " is in, or behind, a circle of waits");
    });
  }

  const Deployment& deployment_;
  std::vector<std::size_t> first_;   // by program: its first instruction's vertex
  std::vector<std::size_t> joined_;  // union-find parents
};

}  // namespace

Stream stream_of(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kSend:
      return Stream::kSend;
    case InstructionKind::kReceive:
      return Stream::kReceive;
    case InstructionKind::kAllReduce:
      return Stream::kCollective;
    default:
      return Stream::kCompute;
  }
}

void check(const Deployment& deployment) { Checker(deployment).run(); }

}  // namespace motley
