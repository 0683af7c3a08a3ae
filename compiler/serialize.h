#pragma once

// Deployments and strategies as bytes (proto/deployment.proto, docs/deployment.md; proto/strategy.proto) and back,
// without loss. The bytes are the same for equal values.

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/deployment.h"
#include "compiler/strategy.h"

namespace motley {

namespace proto {
class Deployment;
class Strategy;
}  // namespace proto

inline constexpr std::uint32_t kDeploymentFormatVersion = 2;
inline constexpr std::uint32_t kStrategyFormatVersion = 2;

proto::Deployment to_proto(const Deployment& deployment);
// Throws Error(kInvalidInput) for another version or numbers out of range; whether it is sound, check() tells.
Deployment deployment_from_proto(const proto::Deployment& message);
std::string serialize(const Deployment& deployment);
// `source` names the file or the sender in errors.
Deployment deserialize_deployment(std::string_view bytes, const std::string& source);

proto::Strategy to_proto(const Strategy& strategy);
Strategy strategy_from_proto(const proto::Strategy& message);
std::string serialize(const Strategy& strategy);
Strategy deserialize_strategy(std::string_view bytes, const std::string& source);

}  // namespace motley
