// Pages about runs: what is in the log is on the page, whatever a log may be.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/monitor/report.h"
#include "zeroshard/monitor/run_data.h"

namespace zeroshard {
namespace {

std::string step_line(int step, const std::string& loss) {
  return fmt::format(R"({{"step":{},"loss":{},"lr":0.001,"step_ms":20.0,"time":{}}})"
                     "\n",
                     step, loss, 1000 + step);
}

std::string steps(int first, int last, const std::string& loss = "2.5") {
  std::string log;
  for (int step = first; step <= last; ++step) log += step_line(step, loss);
  return log;
}

bool says(const std::string& page, const std::string& words) {
  return page.find(words) != std::string::npos;
}

TEST(Report, OfAnEmptyLogIsRefused) {
  for (const std::string log : {"", "\n\n", "{}\n", "no json\n", R"({"step":1,"saved":"a"})"}) {
    EXPECT_THROW(report_page(log), ConfigError) << log;
  }
}

TEST(Report, HasWhatTheLogHas) {
  const std::string page = report_page(
      steps(1, 3) +
      R"({"step":3,"eval_loss":1.75})"
      "\n" +
      R"({"run":{"model":"gpt of 2 layers","stage":2},"memory":{"device":{)"
      R"("planned":{"master":1048576},"measured":{"master":2097152}},"off":["device master"]}})" +
      "\n" + R"({"step": 4, "lo)");
  for (const char* words :
       {"<b>3</b><span>steps</span>", "<b>2.5</b><span>last loss</span>", "<b>1.75</b>",
        "gpt of 2 layers", "Learning rate", "<tr class=\"marked\"><td>device: master</td>",
        "+100.0 %", "<b>2</b><span>stage</span>", "<b>2 s</b>"}) {
    EXPECT_TRUE(says(page, words)) << words;
  }
}

TEST(Report, AResumedRunGoesOnWhereItWasResumed) {
  const RunData data =
      read_run_log(steps(1, 100) + R"({"step":100,"eval_loss":3})" + "\n" + steps(101, 120) +
                   R"({"step":120,"eval_loss":9})" + "\n" + steps(101, 150, "1.5"));
  ASSERT_EQ(data.steps.size(), 150U);
  const Points& loss = data.columns.at("loss");
  EXPECT_EQ(loss.front(), std::pair(1.0, 2.5));
  EXPECT_EQ(loss[99], std::pair(100.0, 2.5));
  EXPECT_EQ(loss[100], std::pair(101.0, 1.5));
  EXPECT_EQ(loss.back(), std::pair(150.0, 1.5));
  ASSERT_EQ(data.evaluations.size(), 1U) << "the second was of a step that was done again";
  EXPECT_EQ(data.evaluations.front().second, 3);
}

TEST(Report, OfSeveralRunsInOneFileTheLastOneCounts) {
  const std::string first = steps(1, 20) + R"({"run":{"stage":1},"memory":{}})" + "\n";
  const RunData data = read_run_log(first + steps(1, 5, "7"));
  EXPECT_EQ(data.steps.size(), 5U);
  EXPECT_TRUE(data.facts.empty());
  EXPECT_TRUE(data.memory.IsNull());
}

// A save is told when it is over, some steps later.
TEST(Report, ASaveCutsNothing) {
  const RunData data = read_run_log(steps(1, 9) + R"({"step":5,"saved":"step5"})" + "\n");
  EXPECT_EQ(data.steps.size(), 9U);
}

TEST(Report, ALossThatIsNoNumberIsNone) {
  const std::string page = report_page(steps(1, 5, "null"));
  EXPECT_TRUE(says(page, "<b>none</b><span>last loss</span>"));
  EXPECT_FALSE(says(page, "Loss by step"));
  EXPECT_TRUE(says(page, "Learning rate"));
}

TEST(Report, ExtremeLossesAreDrawn) {
  for (const char* pair : {"1e308 -1e308", "5 5.000000000000001", "0 5e-324", "-1e308 -1e308",
                           "1e-300 1e300", "1e16 10000000000000002"}) {
    const std::string both = pair;
    const std::size_t gap = both.find(' ');
    std::string log;
    for (int step = 0; step < 100; ++step) {
      log += step_line(step, step % 2 == 0 ? both.substr(0, gap) : both.substr(gap + 1));
    }
    const std::string page = report_page(log);
    EXPECT_TRUE(says(page, "Loss by step")) << pair;
    EXPECT_FALSE(says(page, "nan")) << pair;
    EXPECT_FALSE(says(page, "inf\"")) << pair;
    EXPECT_LT(page.size(), 200'000U) << pair;
  }
}

TEST(Report, ExtremeStepsAreDrawn) {
  for (const char* step : {"-5", "0.5", "1e308", "-1e308", "9007199254740993"}) {
    EXPECT_TRUE(says(report_page(fmt::format(R"({{"step":{},"loss":2}})", step)), "Loss by step"));
  }
}

TEST(Report, WhatIsInALogIsTextAndNotHtml) {
  const std::string page =
      report_page(R"({"step":1,"loss":1,"step_ms":3,"times_ms":{"<b>x\"&":2}})"
                  "\n"
                  R"({"run":{"model":"</style><script>alert(1)</script>","device":"<img src=x>"},)"
                  R"("memory":{"device":{"planned":{"<i>":5},"measured":{"<i>":6}}}})"
                  "\n");
  for (const char* words : {"<script>", "<img", "<i>", "<b>x"}) {
    EXPECT_FALSE(says(page, words)) << words;
  }
  EXPECT_TRUE(says(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_TRUE(says(page, "&lt;b&gt;x&quot;&amp;"));
}

TEST(Report, RecordsOfOtherKindsThanOursArePassedOver) {
  for (const std::string record :
       {R"({"memory":{"device":{"planned":{"a":1},"measured":7},"phases":3,"process":[]}})",
        R"({"memory":{"device":{"planned":{"a":1e300},"measured":{"a":-1e300}},"off":[1,{}]}})",
        R"({"memory":7,"run":[]})", R"({"run":{"stage":{},"model":9}})",
        R"({"step":1,"loss":{},"times_ms":3,"sent_bytes":{"a":"b"}})",
        R"({"step":"2","loss":1})"}) {
    EXPECT_TRUE(says(report_page(steps(1, 2) + record + "\n"), "last loss")) << record;
  }
}

}  // namespace
}  // namespace zeroshard
