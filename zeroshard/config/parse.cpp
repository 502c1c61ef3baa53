#include "zeroshard/config/parse.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "zeroshard/config/placeholder.h"
#include "zeroshard/config/relaxed_syntax.h"
#include "zeroshard/config/syntax_error.h"

namespace zeroshard::config {
namespace {

// Deeper than any real config; a bound keeps every later walk over the tree safe from hostile
// files.
constexpr std::size_t kMaxDepth = 64;

// Builds the tree from SAX events. RapidJSON says where an event ended; where it began is the first
// character after the event before it that is neither blank nor a separator. (A container behind a
// trailing comma ends before its bracket, so those are skipped too.)
class TreeBuilder {
 public:
  TreeBuilder(const PlainJson& json, const LineMap& lines, rapidjson::MemoryStream& stream,
              Report& report)
      : json_(json), lines_(lines), stream_(stream), report_(report) {}

  Node take_root() { return std::move(root_); }
  const std::optional<Position>& too_deep() const { return too_deep_; }

  bool Null() {
    add(Node::Kind::null);
    return true;
  }
  bool Bool(bool value) {
    add(Node::Kind::boolean)->boolean = value;
    return true;
  }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    add(Node::Kind::number)->text.assign(text, size);
    return true;
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    add(Node::Kind::text)->text.assign(text, size);
    return true;
  }
  // Not called: numbers arrive as raw text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

  bool StartObject() { return open(Node::Kind::object); }
  bool StartArray() { return open(Node::Kind::list); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  bool Key(const char* text, rapidjson::SizeType size, bool) {
    Member member{.key = std::string(text, size), .at = event_position()};
    const auto [first, is_new] = keys_seen_.back().emplace(member.key, member.at);
    if (!is_new) report_duplicate(member, first->second);
    open_.back()->members.push_back(std::move(member));
    return true;
  }

 private:
  Node* add(Node::Kind kind) {
    Node node;
    node.kind = kind;
    node.at = event_position();
    return place(std::move(node));
  }

  bool open(Node::Kind kind) {
    Node* container = add(kind);
    if (open_.size() == kMaxDepth) too_deep_ = container->at;
    open_.push_back(container);
    keys_seen_.emplace_back();
    return !too_deep_;
  }

  bool close() {
    event_position();
    open_.pop_back();
    keys_seen_.pop_back();
    return true;
  }

  // Pointers in open_ stay valid: only the innermost container grows, and it is the last of its
  // parent's children.
  Node* place(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return &root_;
    }
    Node& parent = *open_.back();
    if (parent.kind == Node::Kind::list) return &parent.items.emplace_back(std::move(node));
    parent.members.back().value = std::move(node);
    return &parent.members.back().value;
  }

  Position event_position() {
    std::size_t begin = event_end_;
    while (begin < json_.text.size() &&
           std::string_view(" \t\r\n,:]}").find(json_.text[begin]) != std::string_view::npos) {
      ++begin;
    }
    event_end_ = stream_.Tell();
    return lines_.at(begin < json_.origin.size() ? json_.origin[begin] : 0);
  }

  void report_duplicate(const Member& member, Position first) {
    report_.add({.severity = Severity::error,
                 .code = Code::duplicate_key,
                 .key = path_to(member.key),
                 .at = member.at,
                 .what = fmt::format("this key was given before, at line {}, column {}", first.line,
                                     first.column),
                 .remedy = "keep one of the two"});
  }

  std::string path_to(const std::string& key) const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i]->kind == Node::Kind::object) path += open_[i]->members.back().key + ".";
    }
    return path + key;
  }

  const PlainJson& json_;
  const LineMap& lines_;
  rapidjson::MemoryStream& stream_;
  Report& report_;
  Node root_;
  std::vector<Node*> open_;
  std::vector<std::unordered_map<std::string, Position>> keys_seen_;  // of each open container
  std::size_t event_end_ = 0;
  std::optional<Position> too_deep_;
};

void report_syntax(Report& report, Position at, std::string what, std::string remedy) {
  report.add({.severity = Severity::error,
              .code = Code::syntax,
              .at = at,
              .what = std::move(what),
              .remedy = std::move(remedy)});
}

// Texts of which a word is enough, since they are no config yet.
bool stands_for_something_else(std::string_view text, const LineMap& lines, Report& report) {
  if (is_git_lfs_pointer(text)) {
    report_syntax(report, {1, 1}, "a git-lfs pointer, and not the file itself",
                  "run git lfs pull in its repository");
    return true;
  }
  const auto placeholder = find_placeholder(text);
  if (!placeholder) return false;
  report_syntax(report, lines.at(placeholder->offset),
                fmt::format("{}, {}", kPlaceholder, placeholder->text), kFillTemplate);
  return true;
}

}  // namespace

std::optional<Node> parse(std::string_view text, Report& report) {
  const LineMap lines(text);
  if (text.size() > kMaxConfigBytes) {
    report_syntax(report, {1, 1}, "the file is larger than 1 MiB", "is it a config?");
    return std::nullopt;
  }
  // To RapidJSON a zero byte is the end, and what follows would be passed over in silence.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    report_syntax(report, lines.at(zero), "a zero byte", "save the file as UTF-8 text");
    return std::nullopt;
  }
  if (stands_for_something_else(text, lines, report)) return std::nullopt;
  const PlainJson json = to_plain_json(text, lines, report);
  rapidjson::MemoryStream stream(json.text.data(), json.text.size());
  TreeBuilder builder(json, lines, stream, report);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseTrailingCommasFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (!result) {
    if (builder.too_deep()) {
      report_syntax(report, *builder.too_deep(), "sections nested more than 64 deep",
                    "flatten the file");
    } else {
      const SyntaxError error = explain_syntax(json, result.Code(), result.Offset(), text.size());
      report_syntax(report, lines.at(error.offset), error.what, error.remedy);
    }
    return std::nullopt;
  }
  Node root = builder.take_root();
  if (root.kind != Node::Kind::object) {
    report_syntax(report, root.at, fmt::format("the file holds {}", describe(root.kind)),
                  "a config is one object: { ... }");
    return std::nullopt;
  }
  return root;
}

}  // namespace zeroshard::config
