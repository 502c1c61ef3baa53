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
    {"BraceNotClosed", "{\"train_batch_size\": 1,\n\"_a\": {", {2, 7}},
    {"BracketNotClosed", "{\"train_batch_size\": 1,\n\"_a\": [1, 2", {2, 7}},
    {"BraceTooMany", "{\"train_batch_size\": 1}}", {1, 24}},
    {"BracketClosedByBrace", R"({"train_batch_size": [1})", {1, 24}},
    {"Empty", "", {1, 1}},
    {"OnlyBlanks", " \n ", {2, 2}},
    {"OnlyAComment", "// nothing", {1, 11}},
    {"CommentNotClosed", "{\"train_batch_size\": 1 /* ", {1, 24}},
    {"RootIsAList", "  [1]", {1, 3}},
    {"RootIsANumber", "12", {1, 1}},
    {"RootIsAString", R"("train_batch_size")", {1, 1}},
    {"RootIsNull", "null", {1, 1}},
    {"NumberWithTwoDots", R"({"train_batch_size": 1.2.3})", {1, 25}},
    {"LeadingZeros", R"({"train_batch_size": 012})", {1, 23}},
    {"Hexadecimal", "{\"train_batch_size\": 0x10}", {1, 1}},
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

std::string what_is_said(std::string_view text) {
  const ReadResult read = read_config(text);
  if (read.report.problems().empty()) return "nothing";
  const Problem& problem = read.report.problems().back();
  return fmt::format("{}:{} {}; {}", problem.at.line, problem.at.column, problem.what,
                     problem.remedy);
}

TEST(RefusedSyntax, AMissingBraceIsShownWhereItOpened) {
  EXPECT_EQ(what_is_said("{\n  \"fp16\": {\n    \"enabled\": true\n"),
            "2:11 this { is never closed; add a }");
  // Strictly the first brace is the open one; the indents tell which was forgotten.
  EXPECT_EQ(what_is_said("{\n  \"zero_optimization\": {\n    \"stage\": 2,\n"
                         "  \"fp16\": {\n    \"enabled\": true\n  }\n}\n"),
            "2:24 this { is never closed; add a }");
  EXPECT_EQ(what_is_said("{\"train_batch_size\": 8"), "1:1 this { is never closed; add a }");
}

TEST(RefusedSyntax, AMistakeIsCalledWhatItIs) {
  EXPECT_EQ(what_is_said("{\"a\": 1,, \"b\": 2}"), "1:9 a comma too many; remove it");
  EXPECT_EQ(what_is_said("{\"a\": , \"b\": 2}"),
            "1:7 the value is missing; write one, or remove the key");
  EXPECT_EQ(what_is_said("{\"a\": 1}\n```"), "2:1 text behind the last brace; remove it");
  EXPECT_EQ(what_is_said("{\"a\": 1 \"b\": 2}"), "1:9 a comma is missing before this; add it");
  EXPECT_EQ(what_is_said("{\"a\": 1 /* no end"),
            "1:9 a comment that is never closed; end it with */");
  EXPECT_EQ(what_is_said(""), "1:1 the file is empty; write { } at least");
}

TEST(RefusedSyntax, ATemplatesPlaceholderIsCalledThat) {
  const std::string remedy = "; fill the template in first";
  EXPECT_EQ(what_is_said("{\"train_batch_size\": {{ batch }}, \"fp16\": {}}"),
            "1:22 a template's placeholder, {{ batch }}" + remedy);
  EXPECT_EQ(what_is_said("{\"train_batch_size\": ${BATCH}}"),
            "1:22 a template's placeholder, ${BATCH}" + remedy);
  EXPECT_EQ(what_is_said("{\"train_batch_size\": $BATCH\n}"),
            "1:22 a template's placeholder, $BATCH" + remedy);
  EXPECT_EQ(what_is_said("// see <docs>, {{ }}\n{\"_a\": \"<b>\"}"), "nothing");
}

TEST(RefusedSyntax, AGitLfsPointerIsCalledThat) {
  EXPECT_EQ(what_is_said("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"),
            "1:1 a git-lfs pointer, and not the file itself; run git lfs pull in its repository");
}

TEST(RefusedSyntax, PythonsWordsAreReadWithAWarning) {
  const char* text = "{\"prescale_gradients\": True, \"log_level\": None}";
  EXPECT_EQ(kinds_of_problems(text), (Lines{"warning relaxed_syntax", "warning relaxed_syntax"}));
  EXPECT_TRUE(read_config(text).config.precision.prescale_gradients);
}

TEST(RefusedSyntax, NotANumberIsNeverTaken) {
  for (const char* word : {"NaN", "nan", "-nan", "-Infinity", "1e999"}) {
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
