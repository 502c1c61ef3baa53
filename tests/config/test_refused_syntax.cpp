// Texts that are neither JSON nor one of the relaxed forms: one error, at the right place.

#include "tests/config/config_support.h"

namespace zeroshard::config {
namespace {

struct Refused {
  const char* name;
  std::string text;
  Position at;
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.text; }

class RefusedForm : public testing::TestWithParam<Refused> {};

TEST_P(RefusedForm, IsOneErrorOfTheSyntaxAtThatPlace) {
  const ReadResult read = read_config(GetParam().text);
  Lines errors;
  for (const Problem& problem : read.report.problems()) {
    if (problem.severity == Severity::error) errors.push_back(line_of(problem));
  }
  EXPECT_EQ(errors,
            (Lines{fmt::format("{}:{} error syntax", GetParam().at.line, GetParam().at.column)}));
  EXPECT_FALSE(read.config.batch.train) << "nothing of a refused file is used";
}

std::string deep(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += R"({"_":)";
  text += "1";
  return text + std::string(static_cast<std::size_t>(levels), '}');
}

const std::vector<Refused> kRefused{
    {"ValueMissing", R"({"train_batch_size": , "_a": 1})", {1, 22}},
    {"ValueMissingAtTheEnd", "{\"train_batch_size\":\n}", {2, 1}},
    {"DoubleComma", R"({"train_batch_size": 1,, "_a": 2})", {1, 24}},
    {"LeadingComma", R"({, "train_batch_size": 1})", {1, 2}},
    {"CommaMissingWithinALine", R"({"train_batch_size": 1 "_a": 2})", {1, 24}},
    {"ColonMissing", R"({"train_batch_size" 1})", {1, 21}},
    {"MarkdownFenceBehindTheRoot", "{\"train_batch_size\": 1}\n```\n", {2, 1}},
    {"MarkdownFenceBeforeTheRoot", "```json\n{\"train_batch_size\": 1}", {1, 1}},
    {"SecondRoot", R"({"train_batch_size": 1} {})", {1, 25}},
    {"ZeroByteBehindTheRoot", std::string("{\"train_batch_size\": 1}\0{}", 25), {1, 24}},
    {"BraceNotClosed", "{\"train_batch_size\": 1,\n\"_a\": {", {2, 8}},
    {"BraceTooMany", "{\"train_batch_size\": 1}}", {1, 24}},
    {"BracketClosedByBrace", R"({"train_batch_size": [1})", {1, 24}},
    {"Empty", "", {1, 1}},
    {"OnlyBlanks", " \n ", {2, 2}},
    {"OnlyAComment", "// nothing", {1, 11}},
    {"CommentNotClosed", "{\"train_batch_size\": 1 /* ", {1, 27}},
    {"RootIsAList", "  [1]", {1, 3}},
    {"RootIsANumber", "12", {1, 1}},
    {"RootIsAString", R"("train_batch_size")", {1, 1}},
    {"RootIsNull", "null", {1, 1}},
    {"NumberWithTwoDots", R"({"train_batch_size": 1.2.3})", {1, 25}},
    {"LeadingZeros", R"({"train_batch_size": 012})", {1, 23}},
    {"Hexadecimal", "{\"train_batch_size\": 0x10}", {1, 27}},
    {"WrongEscape", R"({"_a": "\q"})", {1, 9}},
    {"SixtyFiveLevels", deep(65), {1, 321}},
};

std::string refused_name(const testing::TestParamInfo<Refused>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, RefusedForm, testing::ValuesIn(kRefused), refused_name);

TEST(RefusedSyntax, SixtyFourLevelsAreStillRead) { EXPECT_TRUE(problems_of(deep(64)).empty()); }

TEST(RefusedSyntax, NoDepthOfBracketsIsTooMuchToRefuse) {
  for (const char* bracket : {"[", "{\"a\":", "{a:"}) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += bracket;
    EXPECT_TRUE(read_config(text).report.has_errors());
  }
}

TEST(RefusedSyntax, AnUnclosedStringIsRefusedOnItsOwnLine) {
  for (const char* text :
       {"{\n\"_a\": \"b\n}", "{\n\"_a\": \"b", "{\n\"_a\": 'b\n}", "{\n\"_a\n: 1}"}) {
    const ReadResult read = read_config(text);
    ASSERT_EQ(read.report.count(Severity::error), 1U) << text;
    for (const Problem& problem : read.report.problems()) {
      EXPECT_TRUE(problem.severity == Severity::warning || problem.at.line == 2) << text;
    }
  }
}

TEST(RefusedSyntax, AnUnclosedStringIsCalledThat) {
  const Problem problem = only_problem("{\"_a\": \"b\n}");
  EXPECT_NE(problem.what.find("quote"), std::string::npos) << problem.what;
  EXPECT_EQ(problem.at, (Position{1, 10}));
}

TEST(RefusedSyntax, NotANumberIsNeverTaken) {
  for (const char* word : {"NaN", "nan", "-nan", "Infinity", "-Infinity", "1e999"}) {
    const std::string text = fmt::format("{{\"gradient_clipping\": {}\n}}", word);
    const ReadResult read = read_config(text);
    EXPECT_EQ(read.report.count(Severity::error), 1U) << text;
    EXPECT_EQ(read.report.problems().back().at, (Position{1, 23})) << text;
    EXPECT_EQ(read.config.precision.gradient_clipping, 1.0) << text;
  }
}

TEST(RefusedSyntax, BytesThatAreNoUtf8AreRefused) {
  EXPECT_EQ(problems_of("{\"_a\": \"\xFF\"}").size(), 1U);
  EXPECT_EQ(problems_of("{\"_a\": \"\xC3\"}").size(), 1U);
}

TEST(RefusedSyntax, AKeyGivenTwiceIsAnErrorAtTheSecond) {
  EXPECT_EQ(problems_of("{\"steps_per_print\": 1,\n \"steps_per_print\": 1}"),
            (Lines{"2:2 error duplicate_key steps_per_print"}));
  EXPECT_EQ(problems_of("{\"fp16\": {\"enabled\": true, 'enabled': true}}").back(),
            "1:28 error duplicate_key fp16.enabled");
  EXPECT_EQ(problems_of("{\"_a\": [{\"b\": 1, \"b\": 2}]}"),
            (Lines{"1:18 error duplicate_key _a.b"}));
}

}  // namespace
}  // namespace zeroshard::config
