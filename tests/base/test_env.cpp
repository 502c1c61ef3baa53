#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/base/env_scope.h"
#include "zeroshard/base/env.h"

namespace zeroshard::test {
namespace {

std::vector<std::string> documented_names() {
  std::ifstream file(std::string(ZEROSHARD_SOURCE_DIR) + "/docs/env_variables.md");
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) names.push_back(line.substr(3));
  }
  return names;
}

TEST(Env, DocumentationListsExactlyWhatIsRead) {
  std::vector<std::string> known;
  for (const auto& info : all_env_vars()) known.push_back(info.name);
  EXPECT_EQ(documented_names(), known);
}

TEST(Env, TableIsInTheOrderOfTheEnum) {
  int index = 0;
  for (const auto& info : all_env_vars()) {
    EXPECT_EQ(static_cast<int>(info.var), index++) << info.name;
    EXPECT_STRNE(info.meaning, "");
  }
}

TEST(Env, ReadsText) {
  EnvScope scope(EnvVar::kLog, "debug:all");
  EXPECT_EQ(env_text(EnvVar::kLog), "debug:all");
}

TEST(Env, EmptyCountsAsUnset) {
  EnvScope scope(EnvVar::kLog, "");
  EXPECT_EQ(env_text(EnvVar::kLog), std::nullopt);
}

TEST(Env, ReadsWholeNumbersOnly) {
  const auto read = [](const char* text) {
    EnvScope scope(EnvVar::kSlurmRank, text);
    return env_integer(EnvVar::kSlurmRank);
  };
  EXPECT_EQ(read("12"), 12);
  EXPECT_EQ(read("-1"), -1);
  EXPECT_EQ(read("12x"), std::nullopt);
  EXPECT_EQ(read("1.5"), std::nullopt);
  EXPECT_EQ(read(" 1"), std::nullopt);
  EXPECT_EQ(read("99999999999999999999"), std::nullopt);
  EXPECT_EQ(read(""), std::nullopt);
}

}  // namespace
}  // namespace zeroshard::test
