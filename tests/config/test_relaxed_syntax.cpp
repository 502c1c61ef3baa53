// The forms of Hjson that people's files use, each read as what it means, with a warning or none.

#include "tests/config/config_support.h"

namespace zeroshard::config {
namespace {

// Every text says train_batch_size 12 and job_name "x" in its own way.
struct Form {
  const char* name;
  std::string text;
  Lines problems;
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.text; }

class AcceptedForm : public testing::TestWithParam<Form> {};

TEST_P(AcceptedForm, GivesTheSameConfigAndSaysExactlyWhere) {
  const ReadResult read = read_config(GetParam().text);
  EXPECT_EQ(read.config.batch.train, 12);
  EXPECT_EQ(read.config.monitor.tensorboard.job_name, "x");
  EXPECT_EQ(problems_of(GetParam().text), GetParam().problems);
}

const std::vector<Form> kForms{
    {"PlainJson", R"({"train_batch_size": 12, "tensorboard": {"job_name": "x"}})", {}},
    {"LineComments",
     "// first {\n{\"train_batch_size\": 12, // \"why\": 1\n"
     "\"tensorboard\": {\"job_name\": \"x\"}} // end }",
     {}},
    {"BlockComments",
     "/* { \n */{\"train_batch_size\": /* 13 */ 12, \"tensorboard\": {/**/\"job_name\": "
     "\"x\"}}/**/",
     {}},
    {"TrailingCommas", R"({"train_batch_size": 12, "tensorboard": {"job_name": "x",},})", {}},
    {"ByteOrderMark",
     "\xEF\xBB\xBF{\"train_batch_size\": 12, \"tensorboard\": {\"job_name\": \"x\"}}",
     {}},
    {"WindowsLineEnds",
     "{\r\n\"train_batch_size\": 12,\r\n\"tensorboard\": {\"job_name\": \"x\"}\r\n}\r\n",
     {}},
    {"HashComments",
     "# {\n{\"train_batch_size\": 12, # twelve\n\"tensorboard\": {\"job_name\": \"x\"}}",
     {"1:1 warning relaxed_syntax", "2:26 warning relaxed_syntax"}},
    {"CommaMissingAtALinesEnd",
     "{\"train_batch_size\": 12\n\"tensorboard\": {\"job_name\": \"x\"}}",
     {"1:23 warning relaxed_syntax"}},
    {"CommaMissingBeforeWindowsLineEnd",
     "{\"train_batch_size\": 12\r\n\"tensorboard\": {\"job_name\": \"x\"}}",
     {"1:23 warning relaxed_syntax"}},
    {"CommaMissingAfterSection",
     "{\"tensorboard\": {\n\"job_name\": \"x\"\n}\n\"train_batch_size\": 12}",
     {"3:1 warning relaxed_syntax"}},
    {"CommaMissingThenBlankLinesAndAComment",
     "{\"train_batch_size\": 12\n\n // why\n /* and\n how */\n"
     "\"tensorboard\": {\"job_name\": \"x\"}}",
     {"1:23 warning relaxed_syntax"}},
    {"CommaMissingAfterAStringWithAccents",
     "{\"_é\": \"äöü\"\n\"train_batch_size\": 12, \"tensorboard\": {\"job_name\": \"x\"}}",
     {"1:12 warning relaxed_syntax"}},
    {"CommaMissingAfterAnUnquotedValueWithAccents",
     "{\"tensorboard\": {\n\"_a\": é\n\"job_name\": \"x\"}, \"train_batch_size\": 12}",
     {"2:7 warning relaxed_syntax", "2:7 warning relaxed_syntax"}},
    {"UnquotedKeys",
     "{train_batch_size: 12, tensorboard : {\"_ö\": 1, job_name: \"x\"}}",
     {"1:2 warning relaxed_syntax", "1:24 warning relaxed_syntax", "1:48 warning relaxed_syntax"}},
    {"SingleQuotes",
     "{'train_batch_size': 12, \"tensorboard\": {\"job_name\": 'x'}}",
     {"1:2 warning relaxed_syntax", "1:54 warning relaxed_syntax"}},
    {"OuterBracesMissing",
     "\n\"train_batch_size\": 12,\n\"tensorboard\": {\"job_name\": \"x\"}\n",
     {"2:1 warning relaxed_syntax"}},
    {"OuterBracesMissingBehindAComment",
     "// c\n  \"train_batch_size\": 12, \"tensorboard\": {\"job_name\": \"x\"}",
     {"2:3 warning relaxed_syntax"}},
    {"UnquotedValue",
     "{\"train_batch_size\": 12, \"tensorboard\": {\n  \"job_name\": x\n}}",
     {"2:15 warning relaxed_syntax"}},
    {"UnquotedValueBeforeWindowsLineEnd",
     "{\"train_batch_size\": 12, \"tensorboard\": {\r\n  \"job_name\": x \r\n}}",
     {"2:15 warning relaxed_syntax"}},
};

std::string form_name(const testing::TestParamInfo<Form>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, AcceptedForm, testing::ValuesIn(kForms), form_name);

std::string job_name_of(const std::string& json_string) {
  return read_config(R"({"tensorboard": {"job_name": )" + json_string + "\n}}")
      .config.monitor.tensorboard.job_name;
}

TEST(RelaxedSyntax, CommentSignsInsideStringsAreNoComments) {
  for (const std::string text : {"http://x", "a # b", "/* no */", "'", "{", "a, b"}) {
    EXPECT_EQ(job_name_of('"' + text + '"'), text);
    EXPECT_TRUE(problems_of(nested("tensorboard.job_name", '"' + text + '"')).empty()) << text;
  }
  for (const std::string text : {"http://x", "a # b", "/* no */", "\"", "{", "a, b"}) {
    EXPECT_EQ(job_name_of("'" + text + "'"), text);
  }
}

TEST(RelaxedSyntax, EscapesMeanTheSameInBothKindsOfQuotes) {
  EXPECT_EQ(job_name_of(R"("a\"b\\\u00e9\n")"), "a\"b\\\xC3\xA9\n");
  EXPECT_EQ(job_name_of(R"('a\'b\\\u00e9\n"')"), "a'b\\\xC3\xA9\n\"");
}

TEST(RelaxedSyntax, AnUnquotedValueRunsToTheEndOfItsLine) {
  EXPECT_EQ(job_name_of("runs/my job, v2 # one"), "runs/my job, v2 # one");
  EXPECT_EQ(job_name_of("spaces behind \t"), "spaces behind");
  EXPECT_EQ(job_name_of("C:\\logs"), "C:\\logs");
}

TEST(RelaxedSyntax, EachMissingCommaIsOneWarning) {
  EXPECT_EQ(problems_of("{\n\"_a\": 1\n\"_b\": [1\n2\n]\n\"_c\": {}\n}"),
            (Lines{"2:7 warning relaxed_syntax", "3:8 warning relaxed_syntax",
                   "5:1 warning relaxed_syntax"}));
}

TEST(RelaxedSyntax, TheWarningNamesWhatItReadAndHowToMendIt) {
  const Problem key = only_problem("{_mine: 1}");
  EXPECT_NE(key.what.find("_mine"), std::string::npos) << key.what;
  EXPECT_FALSE(key.remedy.empty());
  const Problem value = only_problem("{\"log_level\": info\n}");
  EXPECT_NE(value.what.find("\"info\""), std::string::npos) << value.what;
  EXPECT_FALSE(value.remedy.empty());
}

}  // namespace
}  // namespace zeroshard::config
