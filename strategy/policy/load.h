#pragma once

// The policy for programs that do not link LibTorch: it and its LibTorch are a module of their own, motley-policy.so
// beside the program, which is loaded when it is first asked for. Other commands start at once, and need no LibTorch.

#include <filesystem>
#include <memory>

#include "strategy/policy/training.h"
#include "strategy/search/prior.h"

namespace motley {

// The weights that come with motley: policy.safetensors beside the program.
std::filesystem::path shipped_weights();

// Throws Error(kUnavailable) when the module cannot be loaded, and as Policy does.
std::unique_ptr<Prior> load_policy(const std::filesystem::path& weights);
// The policy that comes with motley; null when its files are not beside the program.
std::unique_ptr<Prior> load_shipped_policy();
// Throws likewise, and as train_policy does.
void load_and_train_policy(const PolicyTraining& training);

// What the module exports, by these names.
using MakePolicy = Prior*(const std::filesystem::path& weights);
using TrainPolicy = void(const PolicyTraining& training);
inline constexpr const char* kMakePolicy = "motley_make_policy";
inline constexpr const char* kTrainPolicy = "motley_train_policy";

}  // namespace motley
