#include "strategy/policy/load.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"

namespace motley {

namespace {

std::filesystem::path beside_the_program(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}
std::filesystem::path module() { return beside_the_program("motley-policy.so"); }

// It stays loaded to the end: LibTorch cannot be unloaded.
template <class Function>
Function* exported(const char* name) {
  const auto fail = [] {
    const char* const why = ::dlerror();
    throw Error(ErrorKind::kUnavailable, "the policy cannot be loaded (" + std::string(why != nullptr ? why : "") +
                                             "); search without it: --policy none");
  };
  void* const library = ::dlopen(module().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail();
  void* const symbol = ::dlsym(library, name);
  if (symbol == nullptr) fail();
  return reinterpret_cast<Function*>(symbol);
}

}  // namespace

std::filesystem::path shipped_weights() { return beside_the_program("policy.safetensors"); }

std::unique_ptr<Prior> load_policy(const std::filesystem::path& weights) {
  return std::unique_ptr<Prior>(exported<MakePolicy>(kMakePolicy)(weights));
}

std::unique_ptr<Prior> load_shipped_policy() {
  if (!std::filesystem::exists(module()) || !std::filesystem::exists(shipped_weights())) return nullptr;
  return load_policy(shipped_weights());
}

void load_and_train_policy(const PolicyTraining& training) { exported<TrainPolicy>(kTrainPolicy)(training); }

}  // namespace motley
