// Every key and every value of a file knows its line and column.

#include <map>

#include "tests/config/config_support.h"
#include "zeroshard/config/parse.h"

namespace zeroshard::config {
namespace {

// No token stands twice in it, so that the test can look for each.
constexpr const char* kText = R"(// a comment with "quotes", {braces} and é
{
  "alpha": 11, "béta": "välue", /* between
  lines */ "gamma": [21, "zwei", [31, {"inner": 41}], true],
	"tabbed": -5.5e3,
  "wide": {"日本": "語", "after": null, "nested": {"deep": false,},},
  bare: 71   # a comment
  'single': 'quoted',
  "omitted": word and more
  "last": {}
}
)";

// Counted anew here: lines by newlines, columns by bytes that do not continue a character.
Position place_of(const std::string& text, const std::string& token) {
  const std::size_t offset = text.find(token);
  EXPECT_NE(offset, std::string::npos) << token;
  EXPECT_EQ(text.find(token, offset + 1), std::string::npos) << token << " stands twice";
  Position at{1, 1};
  for (std::size_t i = 0; i < offset; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      at = {at.line + 1, 1};
    } else if (byte < 0x80 || byte >= 0xC0) {
      ++at.column;
    }
  }
  return at;
}

using Places = std::map<std::string, Position>;

void collect(const Node& node, const std::string& path, Places& places) {
  places[path + " ="] = node.at;
  for (const Member& member : node.members) {
    places[path + "/" + member.key] = member.at;
    collect(member.value, path + "/" + member.key, places);
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    collect(node.items[i], fmt::format("{}[{}]", path, i), places);
  }
}

TEST(Positions, AreThoseOfTheFileForEveryKeyAndValue) {
  const std::map<std::string, std::string> tokens{
      {" =", "{\n  \"alpha\""},
      {"/alpha", "\"alpha\""},
      {"/alpha =", "11"},
      {"/béta", "\"béta\""},
      {"/béta =", "\"välue\""},
      {"/gamma", "\"gamma\""},
      {"/gamma =", "[21"},
      {"/gamma[0] =", "21"},
      {"/gamma[1] =", "\"zwei\""},
      {"/gamma[2] =", "[31"},
      {"/gamma[2][0] =", "31"},
      {"/gamma[2][1] =", "{\"inner\""},
      {"/gamma[2][1]/inner", "\"inner\""},
      {"/gamma[2][1]/inner =", "41"},
      {"/gamma[3] =", "true"},
      {"/tabbed", "\"tabbed\""},
      {"/tabbed =", "-5.5e3"},
      {"/wide", "\"wide\""},
      {"/wide =", "{\"日本"},
      {"/wide/日本", "\"日本\""},
      {"/wide/日本 =", "\"語\""},
      {"/wide/after", "\"after\""},
      {"/wide/after =", "null"},
      {"/wide/nested", "\"nested\""},
      {"/wide/nested =", "{\"deep\""},
      {"/wide/nested/deep", "\"deep\""},
      {"/wide/nested/deep =", "false"},
      {"/bare", "bare"},
      {"/bare =", "71"},
      {"/single", "'single'"},
      {"/single =", "'quoted'"},
      {"/omitted", "\"omitted\""},
      {"/omitted =", "word"},
      {"/last", "\"last\""},
      {"/last =", "{}"},
  };
  Report report;
  const auto root = parse(kText, report);
  ASSERT_TRUE(root);
  Places found, expected;
  collect(*root, "", found);
  for (const auto& [path, token] : tokens) expected[path] = place_of(kText, token);
  for (const auto& [path, at] : found) {
    ASSERT_TRUE(expected.contains(path)) << path << " was not expected";
    EXPECT_EQ(fmt::format("{}:{}", at.line, at.column),
              fmt::format("{}:{}", expected[path].line, expected[path].column))
        << path;
  }
  EXPECT_EQ(found.size(), expected.size());
}

TEST(Positions, ValuesAreTheOnesWritten) {
  Report report;
  const auto root = parse(kText, report);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->find("béta")->value.text, "välue");
  EXPECT_EQ(root->find("tabbed")->value.text, "-5.5e3");
  EXPECT_EQ(root->find("single")->value.text, "quoted");
  EXPECT_EQ(root->find("omitted")->value.text, "word and more");
  EXPECT_EQ(spelling(root->find("gamma")->value), "[21, \"zwei\", [31, {...}], true]");
  EXPECT_EQ(root->find("nobody"), nullptr);
}

TEST(Positions, AByteOrderMarkTakesNoColumn) {
  EXPECT_EQ(problems_of("\xEF\xBB\xBF{\"fp16\": 1}"), (Lines{"1:10 error wrong_type fp16"}));
}

TEST(Positions, OfAWrongValueIsTheValues) {
  EXPECT_EQ(problems_of("{\"_ä\": 1, \"fp16\":\n  {\"enabled\":   7}}"),
            (Lines{"2:17 error wrong_type fp16.enabled"}));
}

TEST(Positions, OfAWrongKeyIsTheKeys) {
  EXPECT_EQ(problems_of("{\"_ä\": 1, \"fp16\":\n  {\"enable\":   true}}"),
            (Lines{"2:4 error unknown_key fp16.enable"}));
}

}  // namespace
}  // namespace zeroshard::config
