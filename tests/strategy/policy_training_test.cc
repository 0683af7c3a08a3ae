#include <gmock/gmock.h>

#include "base/file.h"
#include "runtime/safetensors.h"
#include "strategy/policy/training.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

class PolicyTrainingTest : public testing::Test {
 protected:
  PolicyTraining training(const std::string& folder, std::int64_t steps, int threads = 1) const {
    PolicyTraining training;
    training.folder = folder_ / folder;
    training.steps = steps;
    training.threads = threads;
    training.fresh = 1;
    training.lessons = 2;
    training.samples = 2;
    training.evaluations = 40;
    training.held_out = 1;
    return training;
  }
  std::string weights(const std::string& folder) const {
    const SafetensorsFile file(folder_ / folder / "weights.safetensors");
    std::string all;
    for (const NamedTensor& tensor : file.tensors()) {
      all.append(tensor.name);
      all.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
    return all;
  }
  TemporaryFolder folder_;
};

TEST_F(PolicyTrainingTest, GoesOnFromItsCheckpointAsIfItHadNotStopped) {
  train_policy(training("whole", 4));
  train_policy(training("halves", 2));
  EXPECT_FALSE(weights("halves") == weights("whole"));
  train_policy(training("halves", 4));
  EXPECT_TRUE(weights("halves") == weights("whole"));
}

TEST_F(PolicyTrainingTest, DoesNotDependOnThreads) {
  train_policy(training("one", 2, 1));
  train_policy(training("three", 2, 3));
  EXPECT_TRUE(weights("one") == weights("three"));
}

TEST_F(PolicyTrainingTest, LearnsAFixedCase) {
  PolicyTraining one = training("fixed", 60);
  one.kept = 1;
  one.lessons = 1;
  one.samples = 0;
  one.held_out = 0;
  one.learning_rate = 3e-3;
  std::vector<double> losses;
  one.progress = [&](const PolicyMetrics& metrics) { losses.push_back(metrics.imitation); };
  one.fresh = 1;
  one.steps = 1;
  train_policy(one);  // makes the case
  one.fresh = 0;
  one.steps = 60;
  train_policy(one);
  ASSERT_GE(losses.size(), 6U);
  EXPECT_LT(losses.back(), 0.5 * losses[1]);
}

}  // namespace
}  // namespace motley
