// What people read of a report: errors last, one line for each kind of warning, notes only on
// demand.

#include "tests/config/config_support.h"
#include "zeroshard/config/summary.h"

namespace zeroshard::config {
namespace {

Lines lines_of(std::string_view text, bool verbose = false) {
  Lines lines;
  const ReadResult read = read_config(text);
  for (const Problem& problem : summary(read.report, verbose)) {
    lines.push_back(format_problem("f", problem));
  }
  return lines;
}

TEST(Summary, ManyWarningsOfOneKindAreOneLine) {
  EXPECT_EQ(
      lines_of("{\"moe\": 1,\n \"crew\": \"blue\",\n \"zz\": {}}"),
      (Lines{"f: warning: [config] moe = 1 (1:2), crew = \"blue\" (2:2), zz = {} (3:2): unknown "
             "key, ignored; remove it, or begin it with _ to keep it as a comment"}));
}

TEST(Summary, WhatIsDoneInsteadDiffersFromKeyToKey) {
  const Lines lines = lines_of(R"({"dump_state": true, "comms_logger": {"enabled": true}})");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(
      lines[0].find("dump_state = true (1:16), comms_logger.enabled = true (1:50): no effect"),
      std::string::npos)
      << lines[0];
  EXPECT_NE(lines[0].find("zeroshard config keys"), std::string::npos) << lines[0];
}

TEST(Summary, OneWarningKeepsItsPlaceAndRemedy) {
  EXPECT_EQ(lines_of(R"({"dump_state": true})"),
            (Lines{"f:1:16: warning: [config] dump_state = true: no effect here; use zeroshard "
                   "config explain"}));
}

TEST(Summary, ErrorsStandByThemselvesAndLast) {
  const Lines lines = lines_of(R"({"fp16": {"a_b": 1, "c_d": 2}, "moe": 1})");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[0].find("warning"), std::string::npos);
  EXPECT_NE(lines[1].find("error: [config] fp16.a_b"), std::string::npos);
  EXPECT_NE(lines[2].find("error: [config] fp16.c_d"), std::string::npos);
}

TEST(Summary, KeysThatChangeNothingAreShownOnDemand) {
  for (const char* text : {R"({"zero_optimization": {"allgather_bucket_size": 2e8}})",
                           R"({"zero_optimization": {"sub_group_size": 1e9}})",
                           R"({"zero_optimization": {"contiguous_gradients": false}})",
                           R"({"zero_optimization": {"offload_optimizer": {"buffer_count": 4}}})",
                           R"({"activation_checkpointing": {"profile": true}})"}) {
    EXPECT_EQ(lines_of(text), Lines{}) << text;
    const Lines verbose = lines_of(text, true);
    ASSERT_EQ(verbose.size(), 1U) << text;
    EXPECT_NE(verbose[0].find(": note: "), std::string::npos) << verbose[0];
  }
}

TEST(Summary, AKeyAtItsDefaultIsNoMoreThanANote) {
  EXPECT_EQ(lines_of(R"({"zero_optimization": {"zero_hpz_partition_size": 1}})", true), Lines{});
  for (const Lines& lines : {lines_of(R"({"checkpoint": {"writer": null}})", true),
                             lines_of(R"({"wandb": {"enabled": false}})", true)}) {
    EXPECT_EQ(lines, Lines{});
  }
}

TEST(Summary, LongListsAreCutShort) {
  std::string text = "{";
  for (int i = 0; i < 30; ++i) text += fmt::format("\"zz{}\": 1,", i);
  const Lines lines = lines_of(text + "\"_\": 1}");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find(" and 22 more: unknown key"), std::string::npos) << lines[0];
}

TEST(Summary, ADictionaryHasNoPlaces) {
  ReadResult read = read_config(R"({"moe": 1, "crew": 2, "fp16": {"enabled": 7}})");
  read.report.forget_positions();
  Lines lines;
  for (const Problem& problem : summary(read.report)) {
    lines.push_back(describe_problem("config", problem));
  }
  EXPECT_EQ(lines[0].rfind("config: [config] moe = 1, crew = 2: unknown key", 0), 0U) << lines[0];
  EXPECT_EQ(lines[1].rfind("config: [config] fp16.enabled = 7: expected", 0), 0U) << lines[1];
}

}  // namespace
}  // namespace zeroshard::config
