// `zeroshard config check | explain | keys` end to end.
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/support/run_program.h"

namespace zeroshard::test {
namespace {

Finished zeroshard(const std::string& arguments) {
  return run_program(ZEROSHARD_BINARY, arguments);
}

rapidjson::Document json_of(const Finished& finished) {
  rapidjson::Document document;
  document.Parse(finished.out.c_str());
  EXPECT_FALSE(document.HasParseError()) << finished.out;
  return document;
}

constexpr const char* kGood = R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}})";
constexpr const char* kWarns = R"({"train_batch_size": 8, "team": "blue"})";
constexpr const char* kBad = "{\n  \"zero_optimization\": {\n    \"stage\": 7\n  }\n}\n";

TEST(ConfigCheck, AGoodFileIsFine) {
  const TemporaryFile file(kGood);
  const Finished finished = zeroshard("config check " + file.path());
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.out, file.path() + ": fine\n");
}

TEST(ConfigCheck, ABadFileSaysKeyValuePlaceAndRemedy) {
  const TemporaryFile file(kBad);
  const Finished finished = zeroshard("config check " + file.path());
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_EQ(finished.out,
            file.path() +
                ":3:14: error: [config] zero_optimization.stage = 7: expected an integer "
                "from 0 to 3; the default is 0\n" +
                file.path() + ": rejected, 1 error and 0 warnings\n");
}

TEST(ConfigCheck, SeveralFilesGiveASummaryAndOneBadOneDecides) {
  const TemporaryFile good(kGood), warns(kWarns), bad(kBad);
  const Finished finished = zeroshard("config check " + good.path() + " " + warns.path() + " " +
                                      bad.path() + " /no/such");
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_NE(finished.out.find("4 files: 1 fine, 1 with warnings, 2 rejected\n"), std::string::npos)
      << finished.out;
  EXPECT_EQ(zeroshard("config check " + good.path() + " " + warns.path()).exit_code, 0);
}

TEST(ConfigCheck, StrictRefusesUnknownKeys) {
  const TemporaryFile warns(kWarns);
  EXPECT_EQ(zeroshard("config check " + warns.path()).exit_code, 0);
  EXPECT_EQ(zeroshard("config check --strict " + warns.path()).exit_code, 2);
}

TEST(ConfigCheck, WorldSizeChecksTheBatch) {
  const TemporaryFile file(R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 4})");
  EXPECT_EQ(zeroshard("config check --world-size 3 " + file.path()).exit_code, 0);
  EXPECT_EQ(zeroshard("config check --world-size 2 " + file.path()).exit_code, 2);
}

TEST(ConfigCheck, WorldSizeWithoutBatchSizesWarns) {
  const TemporaryFile silent(kGood), automatic(R"({"train_batch_size": "auto"})");
  for (const TemporaryFile* file : {&silent, &automatic}) {
    const Finished finished = zeroshard("config check --world-size 2 " + file->path());
    EXPECT_EQ(finished.exit_code, 0);
    EXPECT_NE(finished.out.find("--world-size has nothing to check"), std::string::npos)
        << finished.out;
  }
  EXPECT_NE(
      zeroshard("config explain --world-size 2 " + silent.path()).err.find("nothing to check"),
      std::string::npos);
  EXPECT_EQ(zeroshard("config check --world-size 2 " + TemporaryFile(kWarns).path())
                .out.find("nothing to check"),
            std::string::npos);
}

TEST(ConfigCheck, KeysThatChangeNothingAreShownOnDemand) {
  const TemporaryFile file(R"({"zero_optimization": {"allgather_bucket_size": 2e8}})");
  EXPECT_EQ(zeroshard("config check " + file.path()).out, file.path() + ": fine\n");
  const Finished verbose = zeroshard("config check -v " + file.path());
  EXPECT_EQ(verbose.exit_code, 0);
  EXPECT_NE(verbose.out.find("note: [config] zero_optimization.allgather_bucket_size = 2e8"),
            std::string::npos)
      << verbose.out;
}

// What a later version will do is said by everybody in the same words.
TEST(ConfigCheck, CheckExplainAndPlanSpeakAlikeOfTheDisk) {
  const TemporaryFile file(
      R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})");
  const std::string words = "offload to disk is not in this version yet";
  EXPECT_NE(zeroshard("config check " + file.path()).out.find(words), std::string::npos);
  EXPECT_NE(zeroshard("config explain " + file.path()).err.find(words), std::string::npos);
  EXPECT_NE(zeroshard("plan --params 1M --config " + file.path()).err.find(words),
            std::string::npos);
}

TEST(ConfigCheck, JsonForPrograms) {
  const TemporaryFile bad(kBad), good(kGood);
  const Finished finished = zeroshard("config check --json " + bad.path() + " " + good.path());
  EXPECT_EQ(finished.exit_code, 2);
  const auto document = json_of(finished);
  const auto& first = document["files"][0];
  EXPECT_STREQ(first["verdict"].GetString(), "rejected");
  const auto& problem = first["problems"][0];
  EXPECT_STREQ(problem["key"].GetString(), "zero_optimization.stage");
  EXPECT_STREQ(problem["code"].GetString(), "out_of_range");
  EXPECT_EQ(problem["line"].GetInt(), 3);
  EXPECT_EQ(problem["column"].GetInt(), 14);
  EXPECT_EQ(document["summary"]["fine"].GetInt(), 1);
  EXPECT_EQ(document["summary"]["rejected"].GetInt(), 1);
}

TEST(ConfigExplain, ValuesAndWhereTheyCameFrom) {
  const TemporaryFile file(
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
 "gradient_clipping": "auto", "zero_optimization": {"stage": 3}})");
  const Finished finished = zeroshard("config explain --json --world-size 4 " + file.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const auto document = json_of(finished);
  const auto row = [&](const std::string& key) -> std::pair<std::string, std::string> {
    for (const auto& item : document.GetArray()) {
      if (key == item["key"].GetString()) {
        return {item["value"].GetString(), item["source"].GetString()};
      }
    }
    return {"missing", "missing"};
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(row("train_batch_size"), (Pair{"32", "file"}));
  EXPECT_EQ(row("gradient_accumulation_steps"), (Pair{"2", "derived"}));
  EXPECT_EQ(row("gradient_clipping"), (Pair{"1", "auto"}));
  EXPECT_EQ(row("zero_optimization.overlap_comm"), (Pair{"true", "derived"}));
  EXPECT_EQ(row("zero_optimization.reduce_bucket_size"), (Pair{"500000000", "default"}));
}

TEST(ConfigExplain, ABadFileIsNotExplained) {
  const TemporaryFile file(kBad);
  const Finished finished = zeroshard("config explain " + file.path());
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("zero_optimization.stage = 7"), std::string::npos);
}

TEST(ConfigKeys, TheDocumentedTableIsThePrintedOne) {
  std::ifstream page(ZEROSHARD_SOURCE_DIR "/docs/config.md");
  ASSERT_TRUE(page) << "docs/config.md is missing";
  std::ostringstream text;
  text << page.rdbuf();
  const Finished keys = zeroshard("config keys --markdown");
  EXPECT_NE(text.str().find(keys.out), std::string::npos)
      << "docs/config.md is behind the key table: run `make docs`";
}

TEST(ConfigKeys, ListsEveryKeyInEveryForm) {
  const auto document = json_of(zeroshard("config keys --json"));
  EXPECT_GT(document.Size(), 150U);
  const Finished text = zeroshard("config keys");
  for (const auto& key : document.GetArray()) {
    EXPECT_NE(text.out.find(key["key"].GetString()), std::string::npos);
    EXPECT_GT(key["meaning"].GetStringLength(), 0U);
    EXPECT_GT(key["default"].GetStringLength(), 0U) << key["key"].GetString();
  }
}

}  // namespace
}  // namespace zeroshard::test
