#include "runtime/safetensors.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/error_of.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  template <class Number, std::size_t size>
  static NamedTensor tensor(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                            const std::array<Number, size>& numbers) {
    return {name, dtype, std::move(shape), std::as_bytes(std::span(numbers))};
  }
  std::string error_of(std::string_view content) {
    write_file_atomically(folder_ / "bad", content);
    return support::error_of([&] { SafetensorsFile file(folder_ / "bad"); });
  }

  TemporaryFolder folder_;
  std::array<float, 6> weight_{1, 2, 3, 4, 5, 6};
  std::array<std::uint8_t, 3> flags_{1, 0, 1};
  std::array<std::int64_t, 1> step_{7};
};

TEST_F(SafetensorsTest, ReadsBackWhatItWrote) {
  write_safetensors(folder_ / "t",
                    {tensor("flags", DType::kBool, {3}, flags_), tensor("w", DType::kFloat32, {2, 3}, weight_)},
                    {{"step", "7"}});
  const SafetensorsFile file(folder_ / "t");
  ASSERT_NE(file.find("w"), nullptr);
  EXPECT_EQ(file.find("w")->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file.find("w")->bytes.data(), weight_.data(), sizeof weight_), 0);
  EXPECT_EQ(file.find("flags")->dtype, DType::kBool);
  EXPECT_EQ(file.metadata().at("step"), "7");
  EXPECT_EQ(file.find("other"), nullptr);
}

TEST_F(SafetensorsTest, AsksForOneTensorAfterTheOther) {
  std::array<float, 2> numbers{};
  const auto bytes_of = [&](const NamedTensor& tensor) {  // all in the same place
    numbers.fill(tensor.name == "a" ? 1.0F : 2.0F);
    return std::as_bytes(std::span(numbers));
  };
  write_safetensors(folder_ / "t", {{"b", DType::kFloat32, {2}, {}}, {"a", DType::kFloat32, {2}, {}}}, {}, bytes_of);
  const SafetensorsFile file(folder_ / "t");
  for (const auto& [name, number] : {std::pair{"a", 1.0F}, std::pair{"b", 2.0F}}) {
    numbers.fill(number);
    EXPECT_EQ(std::memcmp(file.find(name)->bytes.data(), numbers.data(), sizeof numbers), 0) << name;
  }
}

TEST_F(SafetensorsTest, PythonReadsWhatItWrote) {
  write_safetensors(folder_ / "t",
                    {tensor("w", DType::kFloat32, {2, 3}, weight_), tensor("flags", DType::kBool, {3}, flags_),
                     tensor("step", DType::kInt64, {}, step_)});
  run_python(R"(import sys
from safetensors.torch import load_file
t = load_file(sys.argv[1])
assert t["w"].tolist() == [[1, 2, 3], [4, 5, 6]]
assert t["flags"].tolist() == [True, False, True]
assert t["step"].item() == 7 and t["step"].shape == ())",
             (folder_ / "t").string());
}

TEST_F(SafetensorsTest, ReadsWhatPythonWrote) {
  run_python(R"(import sys, torch
from safetensors.torch import save_file
save_file({"a.b": torch.tensor([[1.5, 2.0]], dtype=torch.bfloat16), "n": torch.tensor([3, 4])}, sys.argv[1], {"k": "v"}))",
             (folder_ / "t").string());
  const SafetensorsFile file(folder_ / "t");
  EXPECT_EQ(file.find("a.b")->dtype, DType::kBFloat16);
  EXPECT_EQ(file.find("a.b")->shape, (std::vector<std::int64_t>{1, 2}));
  std::array<std::int64_t, 2> numbers{};
  std::memcpy(numbers.data(), file.find("n")->bytes.data(), sizeof numbers);
  EXPECT_THAT(numbers, testing::ElementsAre(3, 4));
  EXPECT_EQ(file.metadata().at("k"), "v");
}

TEST_F(SafetensorsTest, RefusesWhatIsNotWhole) {
  EXPECT_THAT(error_of("abc"), HasSubstr("bad: not a whole safetensors file"));
  EXPECT_THAT(error_of(std::string("\xff\0\0\0\0\0\0\0{}", 10)), HasSubstr("does not fit"));
  EXPECT_THAT(error_of(std::string("\2\0\0\0\0\0\0\0[]", 10)), HasSubstr("not a JSON object"));
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_THAT(error_of(std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "1234"),
              HasSubstr("tensor 'w' ends after the file does"));
}

TEST_F(SafetensorsTest, LeavesNothingWhenItCannotWrite) {
  std::filesystem::create_directory(folder_ / "t");  // a folder stands in the way
  EXPECT_THROW(write_safetensors(folder_ / "t", {tensor("w", DType::kFloat32, {6}, weight_)}), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

}  // namespace
}  // namespace motley
