// Headers that lie, break off or attack: each is refused in one sentence, none is believed.

#include <array>

#include <fmt/format.h>
#include <sys/stat.h>

#include "tests/checkpoint/checkpoint_support.h"
#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard {
namespace {

struct Hostile {
  std::string json;
  std::uint64_t data_bytes;
  std::string says;
};

void expect_refused(const Hostile& hostile) {
  const std::string message = message_thrown<StorageError>(
      [&] { parse_safetensors_header(hostile.json, hostile.data_bytes, "file"); });
  EXPECT_TRUE(has(message, hostile.says)) << hostile.json;
}

std::string tensor(std::string_view shape, std::string_view offsets,
                   std::string_view type = "F32") {
  return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", type, shape,
                     offsets);
}

std::string two(std::string_view first, std::string_view second) {
  return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                     R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                     first, second);
}

TEST(SafetensorsHostile, TheSoundOnesOfTheseAreTaken) {
  EXPECT_EQ(parse_safetensors_header(tensor("[2]", "[0,8]"), 8, "file").tensors.size(), 1U);
  EXPECT_EQ(parse_safetensors_header(two("[4,8]", "[0,4]"), 8, "file").tensors[0].name, "b");
  EXPECT_EQ(parse_safetensors_header(tensor("[4]", "[0,2]", "F4"), 2, "file").unreadable.size(),
            1U);
}

TEST(SafetensorsHostile, NoJson) {
  for (const char* json : {"", " {}", "[]", "5", "hello"})
    expect_refused({json, 0, "begin with {"});
  for (const char* json : {"{", "{}{}", "{\"a\"}", "{'a':1}", "{\"a\":}", "{} x", "{}//"}) {
    expect_refused({json, 0, "is no JSON"});
  }
  expect_refused({std::string("{}\0", 3), 0, "a zero byte"});
  expect_refused({"{\"\xff\":{}}", 0, "is no JSON"});
}

TEST(SafetensorsHostile, NestingTakesNoStack) {
  expect_refused({"{\"a\":" + std::string(1'000'000, '['), 0, "a list where it does not belong"});
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "{\"dtype\":";
  expect_refused({deep, 0, "an object where it does not belong"});
}

TEST(SafetensorsHostile, OffsetsThatOverlapOrLeaveHoles) {
  expect_refused({two("[0,4]", "[0,4]"), 4, "overlaps"});
  expect_refused({two("[0,4]", "[2,6]"), 6, "overlaps"});
  expect_refused({two("[0,4]", "[5,9]"), 9, "hole"});
  expect_refused({two("[1,5]", "[5,9]"), 9, "hole"});
}

TEST(SafetensorsHostile, OffsetsOutOfTheFileOrThatLeaveARest) {
  expect_refused({tensor("[2]", "[0,8]"), 4, "take 8 bytes and it has 4"});
  expect_refused({tensor("[2]", "[0,8]"), 9, "take 8 bytes and it has 9"});
  expect_refused({"{}", 1, "take 0 bytes and it has 1"});
}

TEST(SafetensorsHostile, ShapesThatDoNotFillTheOffsets) {
  expect_refused({tensor("[2]", "[0,4]"), 4, "do not fill"});
  expect_refused({tensor("[2]", "[8,0]"), 8, "do not fill"});
  expect_refused({tensor("[]", "[0,0]"), 0, "do not fill"});
  expect_refused({tensor("[3]", "[0,1]", "F4"), 1, "do not fill"});
}

TEST(SafetensorsHostile, NumbersThatOverflowOrAreNone) {
  expect_refused({tensor("[4294967296,4294967296]", "[0,0]"), 0, "do not fill"});
  expect_refused({tensor("[2305843009213693952,8]", "[0,0]"), 0, "do not fill"});
  for (const char* odd :
       {"18446744073709551616", "9223372036854775808", "-1", "1.0", "1e3", "-0"}) {
    expect_refused({tensor(fmt::format("[{}]", odd), "[0,4]"), 4, "no whole number below 2^63"});
    expect_refused({tensor("[1]", fmt::format("[0,{}]", odd)), 4, "no whole number below 2^63"});
  }
  expect_refused({tensor("[\"1\"]", "[0,4]"), 4, "a text where it does not belong"});
  expect_refused({tensor("[null]", "[0,4]"), 4, "null where it does not belong"});
}

TEST(SafetensorsHostile, FieldsThatLackRepeatOrAreUnknown) {
  expect_refused({R"({"a":{}})", 0, "lacks its dtype"});
  expect_refused({R"({"a":{"dtype":"F32","shape":[1]}})", 4, "lacks its dtype"});
  expect_refused({tensor("[1]", "[4]"), 4, "lacks its dtype"});
  expect_refused({tensor("[1]", "[0,4,8]"), 4, "more than two offsets"});
  expect_refused({R"({"a":{"dtype":"F32","dtype":"F32"}})", 0, "two fields"});
  expect_refused({R"({"a":{"strides":[1]}})", 0, "unknown field \"strides\""});
  expect_refused({R"({"a":5})", 0, "a number where it does not belong"});
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  expect_refused({tensor(many + "]", "[0,4]"), 4, "more than 64 dimensions"});
}

TEST(SafetensorsHostile, WordsThatAreNoElementType) {
  for (const char* type : {"F33", "f32", "", "float32", "F32 "}) {
    expect_refused({tensor("[1]", "[0,4]", type), 4, "unknown dtype"});
  }
  expect_refused({R"({"a":{"dtype":32}})", 0, "a number where it does not belong"});
}

TEST(SafetensorsHostile, NamesGivenTwice) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused({"{" + entry + "," + entry + "}", 0, "two tensors are called \"a\""});
  // The same name, spelled otherwise.
  const std::string spelled = R"("\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused({"{" + entry + "," + spelled + "}", 0, "two tensors are called \"a\""});
}

TEST(SafetensorsHostile, MetadataIsTextsOnly) {
  expect_refused({R"({"__metadata__":5})", 0, "metadata must be texts"});
  expect_refused({R"({"__metadata__":{"a":5}})", 0, "metadata must be texts"});
  expect_refused({R"({"__metadata__":{"a":{}}})", 0, "metadata must be texts"});
  expect_refused({R"({"__metadata__":{"a":"1","a":"2"}})", 0, "twice"});
}

TEST(SafetensorsHostile, MessagesStayShortAndPrintable) {
  const std::string json = "{\"\\u001b[31m" + std::string(100'000, 'x') + "\":5}";
  const std::string message =
      message_thrown<StorageError>([&] { parse_safetensors_header(json, 0, "file"); });
  EXPECT_LT(message.size(), 300U);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST(SafetensorsHostile, LengthsBeyondTheFile) {
  const TestFolder folder;
  const auto refused = [&](const std::string& bytes, std::string_view says) {
    put_file(folder / "file", bytes);
    const std::string message =
        message_thrown<StorageError>([&] { SafetensorsReader reader(folder / "file"); });
    EXPECT_TRUE(has(message, says));
    EXPECT_TRUE(has(message, (folder / "file").string()));
  };
  refused("", "too short");
  refused("1234567", "too short");
  refused(length_prefix(3) + "{}", "its header would have 3 bytes");
  refused(length_prefix(100'000'001) + "{}", "more than 100 MB");
  refused(length_prefix(~std::uint64_t{0}) + "{}", "more than 100 MB");
  refused(length_prefix(0), "begin with {");
  refused(safetensors_file(tensor("[2]", "[0,8]"), "1234567"), "take 8 bytes and it has 7");
}

TEST(SafetensorsHostile, ThingsThatAreNoFiles) {
  const TestFolder folder;
  EXPECT_TRUE(has(message_thrown<StorageError>([&] { SafetensorsReader(folder / "none"); }),
                  "No such file"));
  EXPECT_TRUE(
      has(message_thrown<StorageError>([&] { SafetensorsReader(folder.path()); }), "regular file"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(message_thrown<StorageError>([&] { SafetensorsReader(folder / "pipe"); }),
                  "regular file"));
}

TEST(SafetensorsHostile, AFileCutShortAfterItWasOpened) {
  const TestFolder folder;
  put_file(folder / "file", safetensors_file(tensor("[2]", "[0,8]"), "12345678"));
  const SafetensorsReader reader(folder / "file");
  std::filesystem::resize_file(folder / "file", 20);
  std::array<std::byte, 8> into{};
  EXPECT_TRUE(
      has(message_thrown<StorageError>([&] { reader.read("a", 0, into); }), "ended at byte"));
}

}  // namespace
}  // namespace zeroshard
