// Against bytes that the Python package safetensors 0.8.0 wrote (safetensors.numpy.save).

#include <array>

#include "tests/checkpoint/checkpoint_support.h"
#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard {
namespace {

using namespace std::string_literals;

// save({"b": float32 [[1.5, -2, 3.25], [0, 1e-3, 65504]], "a.weight": int32 [7, -1],
//       "e": float32 zeros (0, 4), "s": float16 3.0, "u": uint8 [1, 2, 255]}, {"format": "pt"})
const std::string kFive =
    "@\x01\x00\x00\x00\x00\x00\x00"s
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[24,24]},)"
    R"("a.weight":{"dtype":"I32","shape":[2],"data_offsets":[24,32]},)"
    R"("s":{"dtype":"F16","shape":[],"data_offsets":[32,34]},)"
    R"("u":{"dtype":"U8","shape":[3],"data_offsets":[34,37]}}     )"
    "\x00\x00\xc0?\x00\x00\x00\xc0\x00\x00P@\x00\x00\x00\x00o\x12\x83:\x00\xe0\x7fG"
    "\x07\x00\x00\x00\xff\xff\xff\xff\x00"
    "B\x01\x02\xff"s;

// save({"i64": int64 [1, 2], "f": float32 [1]})
const std::string kWithInt64 =
    "p\x00\x00\x00\x00\x00\x00\x00"s
    R"({"i64":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
    R"("f":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}})"
    "\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?"s;

// save({'quote"back\\ é \n': float32 [1]})
const std::string kOddName =
    "H\x00\x00\x00\x00\x00\x00\x00"s
    R"({"quote\"back\\ é \n":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"
    "\x00\x00\x80?"s;

const std::string kEmpty = "\x08\x00\x00\x00\x00\x00\x00\x00{}      "s;

// The same tensors through our writer.
std::string written_by_us(const SafetensorsReader& reader, const std::filesystem::path& path) {
  SafetensorsWriter writer(path, reader.entries(), reader.metadata());
  for (const TensorEntry& entry : reader.entries()) {
    std::string bytes(entry.bytes(), '\0');
    reader.read(entry.name, 0, std::as_writable_bytes(std::span(bytes)));
    writer.write(entry.name, as_bytes(bytes));
  }
  writer.finish();
  return bytes_of_file(path);
}

TEST(SafetensorsGolden, TheirFileIsReadAsTheyWroteIt) {
  const TestFolder folder;
  put_file(folder / "five.safetensors", kFive);
  const SafetensorsReader reader(folder / "five.safetensors");
  const std::vector<TensorEntry> expected{{"b", DType::fp32, {2, 3}, 0, 24},
                                          {"e", DType::fp32, {0, 4}, 24, 24},
                                          {"a.weight", DType::int32, {2}, 24, 32},
                                          {"s", DType::fp16, {}, 32, 34},
                                          {"u", DType::uint8, {3}, 34, 37}};
  EXPECT_EQ(reader.entries(), expected);
  EXPECT_EQ(reader.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_TRUE(reader.unreadable().empty());

  std::array<float, 6> b{};
  reader.read("b", 0, std::as_writable_bytes(std::span(b)));
  EXPECT_EQ(b, (std::array<float, 6>{1.5F, -2.0F, 3.25F, 0.0F, 1e-3F, 65504.0F}));
  std::array<std::int32_t, 1> second{};
  reader.read("a.weight", 4, std::as_writable_bytes(std::span(second)));
  EXPECT_EQ(second[0], -1);
}

TEST(SafetensorsGolden, OurFilesAreTheirsByteForByte) {
  const TestFolder folder;
  for (const std::string& golden : {kFive, kOddName, kEmpty}) {
    put_file(folder / "theirs", golden);
    EXPECT_EQ(written_by_us(SafetensorsReader(folder / "theirs"), folder / "ours"), golden);
  }
}

TEST(SafetensorsGolden, ElementTypesWeDoNotHaveAreToldAndDoNotSpoilTheRest) {
  const TestFolder folder;
  put_file(folder / "mixed", kWithInt64);
  const SafetensorsReader reader(folder / "mixed");
  ASSERT_EQ(reader.entries().size(), 1U);
  ASSERT_EQ(reader.unreadable().size(), 1U);
  EXPECT_EQ(reader.unreadable()[0].name, "i64");
  float value = 0;
  reader.read("f", 0, std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 1.0F);
  const std::string message = message_thrown<ConfigError>([&] { reader.entry("i64"); });
  EXPECT_TRUE(has(message, "I64"));
}

}  // namespace
}  // namespace zeroshard
