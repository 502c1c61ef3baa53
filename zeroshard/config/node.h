// A JSON value that remembers where it stands, so that every complaint can name line and column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::config {

// One-based; columns count characters, not bytes. Line 0 means "nowhere in the file".
struct Position {
  int line = 0;
  int column = 0;
  auto operator<=>(const Position&) const = default;
};

struct Member;

struct Node {
  enum class Kind { null, boolean, number, text, list, object };

  Kind kind = Kind::null;
  Position at = {};
  bool boolean = false;          // boolean
  std::string text = {};         // text: its contents; number: its spelling in the file
  std::vector<Node> items = {};  // list
  // Without `= {}`, which clang 14 refuses while Member is incomplete.
  std::vector<Member> members;  // object, in the order of the file

  bool is(Kind wanted) const { return kind == wanted; }
  bool is_auto() const { return kind == Kind::text && text == "auto"; }
  const Member* find(std::string_view key) const;
};

struct Member {
  std::string key;
  Position at = {};  // of the key
  Node value = {};
};

// "a boolean", "a list": for sentences.
std::string_view describe(Node::Kind kind);

// A JSON string of this text: in quotes, with what needs it escaped.
std::string json_string(std::string_view text);

// The value as one would write it, cut to `limit` characters.
std::string spelling(const Node& node, std::size_t limit = 60);

}  // namespace zeroshard::config
