#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/base/env_scope.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/base/rank.h"

namespace zeroshard::test {
namespace {

constexpr int kAllRanks = LogSettings::kAllRanks;

class LogLines {
 public:
  explicit LogLines(LogSettings settings)
      : scope_(settings, [this](LogLevel, std::string_view line) { lines.emplace_back(line); }) {}

  std::vector<std::string> lines;

 private:
  LogScope scope_;
};

// Counts how often it is formatted.
struct Costly {
  int* formatted;
};

}  // namespace
}  // namespace zeroshard::test

template <>
struct fmt::formatter<zeroshard::test::Costly> : fmt::formatter<int> {
  template <typename Context>
  auto format(const zeroshard::test::Costly& costly, Context& context) const {
    return fmt::formatter<int>::format(++*costly.formatted, context);
  }
};

namespace zeroshard::test {
namespace {

TEST(Log, LineHasRankLevelAndText) {
  LogLines log({.level = LogLevel::debug, .rank = kAllRanks});
  RankScope rank(3);
  log_debug("a {}", 1);
  log_info("b");
  log_warning("c {} {}", "x", 2.5);
  log_error("d");
  EXPECT_EQ(log.lines,
            (std::vector<std::string>{"zeroshard[3]: debug: a 1", "zeroshard[3]: info: b",
                                      "zeroshard[3]: warning: c x 2.5", "zeroshard[3]: error: d"}));
}

TEST(Log, WritesFromItsLevelUp) {
  LogLines log({.level = LogLevel::warning, .rank = kAllRanks});
  log_debug("no");
  log_info("no");
  log_warning("yes");
  log_error("yes");
  EXPECT_EQ(log.lines.size(), 2u);
}

TEST(Log, OffIsSilent) {
  LogLines log({.level = LogLevel::off, .rank = kAllRanks});
  log_error("no");
  log_at(LogLevel::off, "no");
  EXPECT_TRUE(log.lines.empty());
}

TEST(Log, OnlyTheChosenRankWrites) {
  LogLines log({.level = LogLevel::info, .rank = 2});
  for (int rank = 0; rank < 4; ++rank) {
    RankScope scope(rank);
    log_info("from {}", rank);
  }
  EXPECT_EQ(log.lines, std::vector<std::string>{"zeroshard[2]: info: from 2"});
}

TEST(Log, DisabledCallsFormatNothing) {
  LogLines log({.level = LogLevel::info, .rank = kAllRanks});
  int formatted = 0;
  log_debug("{}", Costly{&formatted});
  EXPECT_EQ(formatted, 0);
  log_info("{}", Costly{&formatted});
  EXPECT_EQ(formatted, 1);
}

TEST(Log, LevelChangesAndRanksStay) {
  LogLines log({.level = LogLevel::info, .rank = 5});
  set_log_level(LogLevel::error);
  EXPECT_EQ(log_settings(), (LogSettings{.level = LogLevel::error, .rank = 5}));
}

TEST(Log, ScopesNestAndRestore) {
  const auto outside = log_settings();
  LogLines outer({.level = LogLevel::info, .rank = kAllRanks});
  {
    LogLines inner({.level = LogLevel::error, .rank = kAllRanks});
    log_error("inner");
    EXPECT_EQ(inner.lines.size(), 1u);
  }
  log_info("outer");
  EXPECT_EQ(outer.lines,
            std::vector<std::string>{fmt::format("zeroshard[{}]: info: outer", current_rank())});
  set_log_settings(outside);
}

TEST(Log, ParsesSettings) {
  EXPECT_EQ(parse_log_settings("info"), (LogSettings{.level = LogLevel::info, .rank = 0}));
  EXPECT_EQ(parse_log_settings("debug:all"),
            (LogSettings{.level = LogLevel::debug, .rank = kAllRanks}));
  EXPECT_EQ(parse_log_settings("warning:3"), (LogSettings{.level = LogLevel::warning, .rank = 3}));
  EXPECT_EQ(parse_log_settings("off").level, LogLevel::off);
}

TEST(Log, RefusesBadSettings) {
  for (const auto* text : {"", "loud", "info:", "info:x", "info:-1", ":all", "info:1:2", "info "}) {
    EXPECT_THROW(parse_log_settings(text), ConfigError) << text;
  }
}

TEST(Log, SettingsComeFromTheEnvironment) {
  {
    EnvScope scope(EnvVar::kLog, "error:all");
    EXPECT_EQ(log_settings_from_env(), (LogSettings{.level = LogLevel::error, .rank = kAllRanks}));
  }
  EnvScope scope(EnvVar::kLog, "");
  EXPECT_EQ(log_settings_from_env(), LogSettings{});
}

TEST(Log, BadEnvironmentNamesTheVariable) {
  EnvScope scope(EnvVar::kLog, "shout");
  try {
    log_settings_from_env();
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.fault().what, "ZEROSHARD_LOG is not understood");
    EXPECT_EQ(error.fault().value, "'shout'");
  }
}

TEST(Log, ThreadsDoNotMixOrLoseLines) {
  constexpr int kThreads = 4, kLines = 200;
  LogLines log({.level = LogLevel::info, .rank = kAllRanks});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      RankScope scope(t);
      for (int i = 0; i < kLines; ++i) log_info("line {}", i);
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(log.lines.size(), std::size_t{kThreads * kLines});
  std::vector<int> next(kThreads, 0);
  for (const auto& line : log.lines) {
    const int rank = line.at(10) - '0';
    EXPECT_EQ(line, fmt::format("zeroshard[{}]: info: line {}", rank, next.at(rank)++));
  }
}

TEST(Log, GoesToStandardErrorWithoutASink) {
  LogScope scope({.level = LogLevel::info, .rank = kAllRanks}, nullptr);
  RankScope rank(1);
  testing::internal::CaptureStderr();
  log_warning("disk is {} % full", 93);
  log_debug("hidden");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "zeroshard[1]: warning: disk is 93 % full\n");
}

}  // namespace
}  // namespace zeroshard::test
