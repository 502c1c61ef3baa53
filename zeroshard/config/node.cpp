#include "zeroshard/config/node.h"

#include <fmt/format.h>

#include "zeroshard/base/utf8.h"

namespace zeroshard::config {
namespace {

void append_spelling(const Node& node, std::size_t limit, std::string& out) {
  if (out.size() > limit) return;
  switch (node.kind) {
    case Node::Kind::null: out += "null"; break;
    case Node::Kind::boolean: out += node.boolean ? "true" : "false"; break;
    case Node::Kind::number: out += node.text; break;
    case Node::Kind::text: out += json_string(node.text); break;
    case Node::Kind::list:
      out += '[';
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ", ";
        append_spelling(node.items[i], limit, out);
      }
      out += ']';
      break;
    case Node::Kind::object: out += node.members.empty() ? "{}" : "{...}"; break;
  }
}

}  // namespace

const Member* Node::find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

std::string_view describe(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::boolean: return "a boolean";
    case Node::Kind::number: return "a number";
    case Node::Kind::text: return "a string";
    case Node::Kind::list: return "a list";
    case Node::Kind::object: return "a section";
  }
  return "a value";
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20U || c == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string spelling(const Node& node, std::size_t limit) {
  std::string out;
  append_spelling(node, limit, out);
  return shortened(out, limit);
}

}  // namespace zeroshard::config
