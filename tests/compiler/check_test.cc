#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/deployment.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::HasSubstr;

// Two devices that exchange a value each and reduce one together.
class CheckTest : public testing::Test {
 protected:
  static Instruction make(InstructionKind kind, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                          std::vector<ValueId> releases, DeviceIndex peer = kNone) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.inputs = std::move(inputs);
    instruction.outputs = std::move(outputs);
    instruction.releases = std::move(releases);
    instruction.peer = peer;
    if (kind == InstructionKind::kAllReduce) instruction.collective = 0;
    return instruction;
  }

  CheckTest() {
    for (DeviceIndex device : {0, 1}) {
      Program program;
      program.device = device;
      program.values.assign(3, Value{0, 0, 4, Bytes(16)});
      program.values[2].alias_of = 0;
      program.instructions = {make(InstructionKind::kFill, {}, {0}, {}),
                              make(InstructionKind::kSend, {0}, {}, {}, 1 - device),
                              make(InstructionKind::kReceive, {}, {1}, {1}, 1 - device),
                              make(InstructionKind::kAllReduce, {0}, {2}, {0, 2})};
      deployment_.programs.push_back(program);
    }
    deployment_.collectives = {{{0, 1}, Bytes(16)}};
  }

  std::vector<Instruction>& code(int program) { return deployment_.programs[program].instructions; }

  std::string failure() const {
    return support::error_of([&] { check(deployment_); }, ErrorKind::kInternal);
  }

  Deployment deployment_;
};

TEST_F(CheckTest, AcceptsASoundDeployment) { EXPECT_EQ(failure(), "no error"); }

TEST_F(CheckTest, FindsAValueUsedBeforeItIsMade) {
  std::swap(code(0)[0], code(0)[1]);
  EXPECT_THAT(failure(), HasSubstr("device 0, instruction 0 (send) uses value 0, which is not alive"));
}

TEST_F(CheckTest, FindsAValueNeverReleased) {
  code(1)[2].releases.clear();
  EXPECT_THAT(failure(), HasSubstr("device 1: value 1 is never released"));
}

// New weights in the storage of the old ones, which another op still wants, or a message may still be reading.
TEST_F(CheckTest, FindsWhatIsWrittenOver) {
  deployment_.collectives.clear();
  deployment_.programs.pop_back();
  std::vector<Value>& values = deployment_.programs[0].values;
  values.assign(4, Value{0, 0, 4, Bytes(16)});
  values[0].persistent = true;
  values[1].alias_of = values[2].alias_of = 0;
  values[2].tensor = 1;  // a view of the old ones
  const Instruction view = make(InstructionKind::kCompute, {0}, {2}, {}),
                    read = make(InstructionKind::kCompute, {2}, {3}, {2, 3});
  const Instruction update = make(InstructionKind::kCompute, {0}, {1}, {1});
  code(0) = {view, read, update};
  EXPECT_EQ(failure(), "no error");
  code(0) = {view, update, read};
  EXPECT_THAT(failure(), HasSubstr("instruction 2 (compute) uses value 2, which was written over"));
  values[3].alias_of = 0;
  code(0) = {view, make(InstructionKind::kCompute, {2}, {}, {2}), update, make(InstructionKind::kScale, {0}, {3}, {3})};
  EXPECT_THAT(failure(), HasSubstr("instruction 3 (scale) uses value 0, which was written over"));
  code(0) = {view, make(InstructionKind::kSend, {2}, {}, {2}, 1), update, make(InstructionKind::kFill, {}, {3}, {3})};
  EXPECT_THAT(failure(), HasSubstr("instruction 2 (compute) writes over value 0, which may still be on its way"));
}

TEST_F(CheckTest, FindsAReceiveWithoutASend) {
  code(1)[2].tag = 7;
  EXPECT_THAT(failure(), HasSubstr("has no send with tag 7"));
}

TEST_F(CheckTest, FindsBytesThatDiffer) {
  deployment_.programs[1].values[1].bytes = Bytes(8);
  EXPECT_THAT(failure(), HasSubstr("differ in bytes"));
}

TEST_F(CheckTest, FindsACollectiveWithAMemberMissing) {
  deployment_.collectives[0].members = {0, 1, 2};
  EXPECT_THAT(failure(), HasSubstr("collective 0 is not entered once"));
}

TEST_F(CheckTest, FindsACircleOfWaits) {
  // Each device sends what the all-reduce made of what it received from the other.
  for (int p : {0, 1}) {
    code(p) = {make(InstructionKind::kReceive, {}, {0}, {}, 1 - p), make(InstructionKind::kScale, {0}, {1}, {0}),
               make(InstructionKind::kSend, {1}, {}, {1}, 1 - p)};
    deployment_.programs[p].values[2].persistent = true;
  }
  deployment_.collectives.clear();
  EXPECT_THAT(failure(), HasSubstr("circle of waits"));
}

TEST_F(CheckTest, FindsCollectivesInDifferentOrders) {
  deployment_.collectives.push_back({{0, 1}, Bytes(16)});
  for (int p : {0, 1}) {
    deployment_.programs[p].values.assign(4, Value{0, 0, 4, Bytes(16)});
    code(p) = {make(InstructionKind::kFill, {}, {0}, {}), make(InstructionKind::kFill, {}, {1}, {}),
               make(InstructionKind::kAllReduce, {0}, {2}, {0, 2}),
               make(InstructionKind::kAllReduce, {1}, {3}, {1, 3})};
    code(p)[2].collective = p;
    code(p)[3].collective = 1 - p;
  }
  EXPECT_THAT(failure(), HasSubstr("circle of waits"));
}

}  // namespace
}  // namespace motley
