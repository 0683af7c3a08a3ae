#include "graph/pt2_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "tests/graph/programs.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Pt2FileTest : public ::testing::Test {
 protected:
  template <class Number>
  static std::vector<Number> values(const Pt2File& file, const std::string& name) {
    const std::string bytes = file.read(name);
    std::vector<Number> numbers(bytes.size() / sizeof(Number));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }
};

struct BadFile {
  const char* name;
  ErrorKind kind;
  const char* says;
};

class BadPt2File : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadPt2File, ErrorNamesTheFileAndWhatIsWrong) {
  const std::string path = program(GetParam().name).string();
  const std::string message = support::error_of([&] { Pt2File::open(path); }, GetParam().kind);
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_THAT(message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(All, BadPt2File,
                         ::testing::Values(BadFile{"nowhere", ErrorKind::kNotFound, "no such file"},
                                           BadFile{"empty", ErrorKind::kInvalidInput, "empty"},
                                           BadFile{"text", ErrorKind::kInvalidInput, "not a zip"},
                                           BadFile{"truncated", ErrorKind::kInvalidInput, "truncated"},
                                           BadFile{"plain", ErrorKind::kInvalidInput, "a zip of something else"},
                                           BadFile{"saved", ErrorKind::kInvalidInput, "a torch.save file"},
                                           BadFile{"broken_json", ErrorKind::kInvalidInput, "not valid JSON"},
                                           BadFile{"other_json", ErrorKind::kInvalidInput, "schema"},
                                           BadFile{"newer", ErrorKind::kUnsupported, "schema version 99"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(Pt2FileTest, FolderInAFilesPlaceIsNamed) {
  EXPECT_THAT(support::error_of([&] { Pt2File::open(testing::TempDir()); }, ErrorKind::kNotFound),
              HasSubstr("this is no plain file"));
}

TEST_F(Pt2FileTest, ReadsContiguousWeights) {
  const Pt2File file = Pt2File::open(program("classifier"));
  EXPECT_TRUE(file.has_weights());
  EXPECT_THAT(values<float>(file, "linear.weight"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(file.tensors().at("linear.weight").sizes, ElementsAre(3, 2));
  EXPECT_TRUE(file.tensors().at("linear.weight").is_parameter);
}

TEST_F(Pt2FileTest, ReadsStridedAndSharedStorage) {
  const Pt2File file = Pt2File::open(program("stored"));
  EXPECT_THAT(values<float>(file, "turned"), ElementsAre(0, 3, 1, 4, 2, 5));  // the transpose of 0 1 2 / 3 4 5
  EXPECT_THAT(values<float>(file, "part"), ElementsAre(7, 8));
}

TEST_F(Pt2FileTest, ReadsBuffersAndConstants) {
  const Pt2File file = Pt2File::open(program("stored"));
  EXPECT_THAT(values<std::uint16_t>(file, "halves"), ElementsAre(0x3f80, 0x3f80));  // 1.0 in bfloat16
  EXPECT_THAT(values<std::int64_t>(file, "constant"), ElementsAre(5, 6));
}

TEST_F(Pt2FileTest, KnowsTiedWeights) {
  const Pt2File file = Pt2File::open(program("stored"));
  EXPECT_TRUE(file.tensors().at("tied").same_storage(file.tensors().at("linear.weight")));
  EXPECT_FALSE(file.tensors().at("turned").same_storage(file.tensors().at("part")));
}

TEST_F(Pt2FileTest, WithoutWeightsTheTableIsThereAndReadingSaysWhatToDo) {
  const Pt2File file = Pt2File::open(program("stripped"));
  EXPECT_FALSE(file.has_weights());
  EXPECT_THAT(file.tensors().at("linear.weight").sizes, ElementsAre(3, 2));
  const std::string message = support::error_of([&] { file.read("linear.weight"); }, ErrorKind::kInvalidInput);
  EXPECT_THAT(message, HasSubstr("linear.weight are needed: export the model with its weights"));
  EXPECT_THROW(file.read("linear.wait"), Error);
}

}  // namespace
}  // namespace motley
