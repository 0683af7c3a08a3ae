// motley-policy.so: see strategy/policy/load.h.

#include "strategy/policy/load.h"
#include "strategy/policy/policy.h"

extern "C" {

motley::Prior* motley_make_policy(const std::filesystem::path& weights) { return new motley::Policy(weights); }
void motley_train_policy(const motley::PolicyTraining& training) { motley::train_policy(training); }
}
