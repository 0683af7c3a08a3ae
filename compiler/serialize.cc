#include "compiler/serialize.h"

#include <limits>

#include "base/error.h"
#include "proto/deployment.pb.h"
#include "proto/strategy.pb.h"

namespace motley {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kInvalidInput, what + ": write it anew with this version of motley");
}

template <class Field, class Values>
void put(Field* field, const Values& values) {
  field->Reserve(static_cast<int>(values.size()));
  for (const auto& value : values) field->Add(value);
}

// Numbers of what there are `count` of, and -1 where `none` is allowed.
template <class Field>
std::vector<std::int32_t> get(const Field& field, std::size_t count, bool none, const char* what) {
  std::vector<std::int32_t> numbers(field.begin(), field.end());
  for (std::int32_t number : numbers) {
    if (number < (none ? kNone : 0) || (number >= 0 && static_cast<std::size_t>(number) >= count)) {
      refuse("the deployment speaks of " + std::string(what) + " " + std::to_string(number) + ", of which there are " +
             std::to_string(count));
    }
  }
  return numbers;
}

template <class Message>
Message parse(std::string_view bytes, const std::string& source, const char* what) {
  Message message;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    refuse(source + " is no " + what + ", or not all of it");
  }
  return message;
}

template <class Read>
auto from(const std::string& source, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.kind(), source + ": " + error.what());
  }
}

void check_version(std::uint32_t version, std::uint32_t known, const char* what) {
  if (version != known) {
    refuse("the " + std::string(what) + " has format version " + std::to_string(version) + ", not " +
           std::to_string(known));
  }
}

void put_instruction(const Instruction& instruction, proto::Instruction* message) {
  message->set_kind(static_cast<std::uint32_t>(instruction.kind));
  if (instruction.op != kNone) message->set_op(instruction.op);
  message->set_batch(instruction.batch);
  message->set_micro_batch(instruction.micro_batch);
  put(message->mutable_inputs(), instruction.inputs);
  put(message->mutable_outputs(), instruction.outputs);
  put(message->mutable_releases(), instruction.releases);
  if (instruction.peer != kNone) message->set_peer(instruction.peer);
  message->set_tag(instruction.tag);
  if (instruction.collective != kNone) message->set_collective(instruction.collective);
  if (instruction.scale != 1.0) message->set_scale(instruction.scale);
}

Instruction get_instruction(const proto::Instruction& message, std::size_t values) {
  if (message.kind() > static_cast<std::uint32_t>(InstructionKind::kFill)) {
    refuse("the deployment has an instruction of kind " + std::to_string(message.kind()));
  }
  Instruction instruction;
  instruction.kind = static_cast<InstructionKind>(message.kind());
  instruction.op = message.has_op() ? message.op() : kNone;
  instruction.batch = message.batch();
  instruction.micro_batch = message.micro_batch();
  const bool none = instruction.kind == InstructionKind::kCompute;
  instruction.inputs = get(message.inputs(), values, none, "value");
  instruction.outputs = get(message.outputs(), values, none, "value");
  instruction.releases = get(message.releases(), values, false, "value");
  instruction.peer = message.has_peer() ? message.peer() : kNone;
  instruction.tag = message.tag();
  instruction.collective = message.has_collective() ? message.collective() : kNone;
  instruction.scale = message.has_scale() ? message.scale() : 1.0;
  return instruction;
}

Program get_program(const proto::Program& message) {
  Program program;
  program.device = message.device();
  const auto count = static_cast<std::size_t>(message.values_size());
  for (const proto::Value& value : message.values()) {
    program.values.push_back({value.tensor(), value.begin(), value.end(), Bytes(value.bytes()),
                              value.has_alias_of() ? value.alias_of() : kNone, value.persistent()});
  }
  program.instructions.reserve(static_cast<std::size_t>(message.instructions_size()));
  for (const proto::Instruction& instruction : message.instructions()) {
    program.instructions.push_back(get_instruction(instruction, count));
  }
  program.inputs = get(message.inputs(), count, false, "value");
  const std::vector<ValueId> losses = get(message.losses(), count, false, "value");
  if (losses.size() != static_cast<std::size_t>(message.loss_weights_size())) {
    refuse("the deployment has a program with losses and weights that differ in number");
  }
  for (std::size_t i = 0; i < losses.size(); ++i) {
    program.losses.push_back({losses[i], message.loss_weights(static_cast<int>(i))});
  }
  return program;
}

}  // namespace

proto::Deployment to_proto(const Deployment& deployment) {
  proto::Deployment message;
  message.set_version(kDeploymentFormatVersion);
  message.set_batch(deployment.batch);
  for (const Program& program : deployment.programs) {
    proto::Program* to = message.add_programs();
    to->set_device(program.device);
    for (const Value& value : program.values) {
      proto::Value* made = to->add_values();
      made->set_tensor(value.tensor);
      made->set_begin(value.begin);
      made->set_end(value.end);
      made->set_bytes(value.bytes.value);
      if (value.alias_of != kNone) made->set_alias_of(value.alias_of);
      made->set_persistent(value.persistent);
    }
    for (const Instruction& instruction : program.instructions) put_instruction(instruction, to->add_instructions());
    put(to->mutable_inputs(), program.inputs);
    for (const LossPart& part : program.losses) {
      to->add_losses(part.value);
      to->add_loss_weights(part.weight);
    }
  }
  for (const Collective& collective : deployment.collectives) {
    proto::Collective* to = message.add_collectives();
    put(to->mutable_members(), collective.members);
    to->set_bytes(collective.bytes.value);
  }
  message.set_strategy_name(deployment.strategy_name);
  message.set_graph_fingerprint(deployment.graph_fingerprint);
  return message;
}

Deployment deployment_from_proto(const proto::Deployment& message) {
  check_version(message.version(), kDeploymentFormatVersion, "deployment");
  Deployment deployment;
  deployment.batch = message.batch();
  for (const proto::Program& program : message.programs()) deployment.programs.push_back(get_program(program));
  for (const proto::Collective& collective : message.collectives()) {
    deployment.collectives.push_back(
        {{collective.members().begin(), collective.members().end()}, Bytes(collective.bytes())});
  }
  deployment.strategy_name = message.strategy_name();
  deployment.graph_fingerprint = message.graph_fingerprint();
  return deployment;
}

std::string serialize(const Deployment& deployment) { return to_proto(deployment).SerializeAsString(); }

Deployment deserialize_deployment(std::string_view bytes, const std::string& source) {
  return from(source, [&] { return deployment_from_proto(parse<proto::Deployment>(bytes, "this", "deployment")); });
}

proto::Strategy to_proto(const Strategy& strategy) {
  proto::Strategy message;
  message.set_version(kStrategyFormatVersion);
  message.set_name(strategy.name);
  for (const GroupDecision& decision : strategy.groups) {
    proto::Strategy::Group* group = message.add_groups();
    for (const Share& share : decision.shares) {
      proto::Strategy::Share* to = group->add_shares();
      to->set_device(share.device);
      to->set_weight(share.weight);
    }
    group->set_gradient(static_cast<std::uint32_t>(decision.gradient));
    group->set_stage(decision.stage);
    group->set_recompute(static_cast<std::uint32_t>(decision.recompute));
  }
  message.set_bucket_bytes(strategy.bucket.value);
  message.set_micro_batches(strategy.micro_batches);
  message.set_schedule(strategy.schedule);
  return message;
}

Strategy strategy_from_proto(const proto::Strategy& message) {
  check_version(message.version(), kStrategyFormatVersion, "strategy");
  Strategy strategy;
  strategy.name = message.name();
  for (const proto::Strategy::Group& group : message.groups()) {
    GroupDecision decision;
    for (const proto::Strategy::Share& share : group.shares()) {
      decision.shares.push_back({share.device(), share.weight()});
    }
    if (group.gradient() > static_cast<std::uint32_t>(GradientMethod::kParameterServer)) {
      refuse("the strategy has a gradient method " + std::to_string(group.gradient()));
    }
    decision.gradient = static_cast<GradientMethod>(group.gradient());
    decision.stage = group.stage();
    if (group.recompute() > static_cast<std::uint32_t>(Recompute::kFull)) {
      refuse("the strategy has a way to recompute " + std::to_string(group.recompute()));
    }
    decision.recompute = static_cast<Recompute>(group.recompute());
    strategy.groups.push_back(std::move(decision));
  }
  strategy.bucket = Bytes(message.bucket_bytes());
  strategy.micro_batches = message.micro_batches();
  strategy.schedule = message.schedule();
  return strategy;
}

std::string serialize(const Strategy& strategy) { return to_proto(strategy).SerializeAsString(); }

Strategy deserialize_strategy(std::string_view bytes, const std::string& source) {
  return from(source, [&] { return strategy_from_proto(parse<proto::Strategy>(bytes, "this", "strategy")); });
}

}  // namespace motley
