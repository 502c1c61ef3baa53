// Records as JSON. rapidjson, which shares no code with the writer, reads everything back.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/monitor/monitor_support.h"
#include "zeroshard/monitor/json_lines.h"
#include "zeroshard/monitor/json_text.h"

namespace zeroshard {
namespace {

constexpr unsigned kStrict =
    rapidjson::kParseValidateEncodingFlag | rapidjson::kParseFullPrecisionFlag;

rapidjson::Document parsed(const std::string& text) {
  rapidjson::Document document;
  document.Parse<kStrict>(text.data(), text.size());
  EXPECT_FALSE(document.HasParseError()) << text << " at " << document.GetErrorOffset();
  return document;
}

std::string read_back(const std::string& value) {
  const auto document = parsed(JsonObject().add("key", value).text());
  return {document["key"].GetString(), document["key"].GetStringLength()};
}

TEST(JsonObject, HasAllKindsOfValues) {
  const JsonObject object = JsonObject()
                                .add("step", 3)
                                .add("size", std::size_t{7})
                                .add("loss", 2.5)
                                .add("whole", 4.0)
                                .add("half", 0.5F)
                                .add("yes", true)
                                .add("name", "a\"b")
                                .add("owned", std::string("text"))
                                .add("list", std::vector<std::string>{"[", "b\""})
                                .add("empty", std::vector<std::string>())
                                .add("inner", JsonObject().add("x", 1).add("none", JsonObject()));
  EXPECT_EQ(object.text(),
            R"({"step":3,"size":7,"loss":2.5,"whole":4.0,"half":0.5,"yes":true,"name":"a\"b",)"
            R"("owned":"text","list":["[","b\""],"empty":[],"inner":{"x":1,"none":{}}})");
}

TEST(JsonObject, IntegersAreExactToTheirEnds) {
  const auto document = parsed(JsonObject()
                                   .add("least", std::numeric_limits<std::int64_t>::min())
                                   .add("most", std::numeric_limits<std::uint64_t>::max())
                                   .text());
  EXPECT_EQ(document["least"].GetInt64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(document["most"].GetUint64(), std::numeric_limits<std::uint64_t>::max());
}

TEST(JsonObject, WhatIsNoNumberIsNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(JsonObject().add("a", std::nan("")).add("b", infinity).add("c", -infinity).text(),
            R"({"a":null,"b":null,"c":null})");
}

TEST(JsonObject, DoublesReadBackBitByBit) {
  std::mt19937_64 random(7);
  std::vector<double> values = {0.0,
                                -0.0,
                                1e22,
                                0.1,
                                std::numeric_limits<double>::denorm_min(),
                                std::numeric_limits<double>::min(),
                                std::numeric_limits<double>::max(),
                                -std::numeric_limits<double>::lowest() / 3};
  for (int i = 0; i < 20000; ++i) values.push_back(std::bit_cast<double>(random()));
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    std::string text;
    append_json_number(text, value);
    const auto document = parsed("[" + text + "]");
    ASSERT_TRUE(document[0].IsDouble()) << text;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(document[0].GetDouble()),
              std::bit_cast<std::uint64_t>(value))
        << text;
  }
}

TEST(JsonString, EveryAsciiCharacterReadsBack) {
  for (int c = 0; c < 128; ++c) {
    const std::string text = std::string("a") + static_cast<char>(c) + "b";
    EXPECT_EQ(read_back(text), text) << c;
  }
  std::string escaped;
  append_json_string(escaped, std::string_view("\x01\x1f\n\t\r\b\f\"\\/", 10));
  EXPECT_EQ(escaped, R"("\u0001\u001f\n\t\r\b\f\"\\/")");
}

std::string utf8_of(std::uint32_t point) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
  const auto more = [&](std::uint32_t shift) { return byte(0x80U | ((point >> shift) & 0x3FU)); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xC0U | point >> 6U), more(0)};
  if (point < 0x10000) return {byte(0xE0U | point >> 12U), more(6), more(0)};
  return {byte(0xF0U | point >> 18U), more(12), more(6), more(0)};
}

TEST(JsonString, EveryCodePointReadsBack) {
  std::string all;
  for (std::uint32_t point = 0; point <= 0x10FFFF; ++point) {
    if (point < 0xD800 || point > 0xDFFF) all += utf8_of(point);
  }
  EXPECT_TRUE(read_back(all) == all);
}

TEST(JsonString, BytesThatAreNoTextAreMarked) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(read_back("a\xFFz"), "a" + mark + "z");
  EXPECT_EQ(read_back("\xC3"), mark) << "cut short";
  EXPECT_EQ(read_back("\xC0\x80"), mark + mark) << "too long a form";
  EXPECT_EQ(read_back("\xED\xA0\x80"), mark + mark + mark) << "a surrogate";
  EXPECT_EQ(read_back("\xF4\x90\x80\x80"), mark + mark + mark + mark) << "beyond the last";
  EXPECT_EQ(read_back("\xE2\x82q"), mark + mark + "q");
}

TEST(JsonString, RandomBytesAreAlwaysValidJson) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random() % 3 == 0 ? random() % 128 : random());
    const std::string once = read_back(text);
    ASSERT_EQ(read_back(once), once) << "seed " << seed << ": what is valid stays as it is";
  }
}

TEST(JsonLines, EachRecordIsALineAtOnce) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "logs/run.jsonl";
  JsonLines log(path);
  log.write(JsonObject().add("step", 1).add("text", "two\nlines"));
  EXPECT_EQ(testing::read_text(path), "{\"step\":1,\"text\":\"two\\nlines\"}\n");
  log.write(JsonObject());
  EXPECT_EQ(testing::read_text(path), "{\"step\":1,\"text\":\"two\\nlines\"}\n{}\n");
}

TEST(JsonLines, AResumedRunGoesOnBelowALineCutShort) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "run.jsonl", "{\"step\":1}\n{\"st");
  JsonLines(folder / "run.jsonl").write(JsonObject().add("step", 2));
  EXPECT_EQ(testing::read_text(folder / "run.jsonl"), "{\"step\":1}\n{\"st\n{\"step\":2}\n");
}

TEST(JsonLines, AFullDiskIsOneSentence) {
  JsonLines log("/dev/full");
  EXPECT_EQ(testing::storage_error_of([&] { log.write(JsonObject().add("step", 1)); }),
            "[storage] cannot write to the file: /dev/full (No space left on device); free some "
            "space or write to another disk");
}

}  // namespace
}  // namespace zeroshard
