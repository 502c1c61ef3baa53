#include "zeroshard/checkpoint/json_view.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/raw_numbers.h"

namespace zeroshard {
namespace {

std::string_view as_text(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

// A member of the format's own rather than a name out of a model.
bool is_plain(std::string_view name) {
  return name.size() < 40 &&
         std::ranges::all_of(name, [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
}

// Hands events on to a document; numbers come as text, since RapidJSON 1.1's own conversion shifts
// out of range for some that are almost zero.
class Numbers : public RawNumbers {
 public:
  explicit Numbers(rapidjson::Document& document) : document_(document) {}

  bool RawNumber(const char* digits, rapidjson::SizeType size, bool) {
    const char* const end = digits + size;
    std::int64_t whole = 0;
    if (is_all(std::from_chars(digits, end, whole), end)) return document_.Int64(whole);
    std::uint64_t large = 0;
    if (is_all(std::from_chars(digits, end, large), end)) return document_.Uint64(large);
    double real = 0;
    return is_all(std::from_chars(digits, end, real), end) && document_.Double(real);
  }
  bool Null() { return document_.Null(); }
  bool Bool(bool value) { return document_.Bool(value); }
  bool String(const char* text, rapidjson::SizeType size, bool copy) {
    return !has_lone_surrogate({text, size}) && document_.String(text, size, copy);
  }
  bool Key(const char* text, rapidjson::SizeType size, bool copy) {
    return !has_lone_surrogate({text, size}) && document_.Key(text, size, copy);
  }
  bool StartObject() { return document_.StartObject(); }
  bool EndObject(rapidjson::SizeType members) { return document_.EndObject(members); }
  bool StartArray() { return document_.StartArray(); }
  bool EndArray(rapidjson::SizeType elements) { return document_.EndArray(elements); }

 private:
  static bool is_all(const std::from_chars_result& result, const char* end) {
    return result.ec == std::errc{} && result.ptr == end;
  }

  rapidjson::Document& document_;
};

// Iterative: nesting costs memory in proportion to the text, and no stack.
struct Generator {
  std::string_view text;
  rapidjson::ParseResult result = {};

  bool operator()(rapidjson::Document& document) {
    constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                                rapidjson::kParseNumbersAsStringsFlag |
                                rapidjson::kParseValidateEncodingFlag;
    rapidjson::MemoryStream stream(text.data(), text.size());
    Numbers numbers(document);
    rapidjson::Reader reader;
    result = reader.Parse<kFlags>(stream, numbers);
    return !result.IsError();
  }
};

}  // namespace

JsonDocument::JsonDocument(std::string_view text, std::string file, std::string kind)
    : file_(std::move(file)), kind_(std::move(kind)) {
  if (text.find('\0') != std::string_view::npos) fail("it is no JSON: it has a zero byte");
  Generator generator{.text = text};
  document_.Populate(generator);
  if (!generator.result.IsError()) return;
  fail(fmt::format("it is no JSON, at byte {}: {}", generator.result.Offset(),
                   rapidjson::GetParseError_En(generator.result.Code())));
}

void JsonDocument::fail(std::string_view what) const {
  throw StorageError({.what = fmt::format("this is no sound {}: {}", kind_, what),
                      .value = file_,
                      .remedy = "take another one, or fetch it again"});
}

std::string JsonView::place() const {
  if (parent_ == nullptr) return "it";
  const std::string before = parent_->parent_ == nullptr ? "" : parent_->place();
  if (parent_->value_.IsArray()) return fmt::format("{}[{}]", before, index_);
  const std::string name = is_plain(name_) ? std::string(name_) : json_quoted_short(name_);
  return before.empty() ? name : fmt::format("{}.{}", before, name);
}

void JsonView::fail(std::string_view what) const {
  document_.fail(fmt::format("{} {}", place(), what));
}

JsonView JsonView::at(std::string_view name) const {
  expect(value_.IsObject(), "is no object");
  const rapidjson::Value* found = nullptr;
  for (const auto& member : value_.GetObject()) {
    if (as_text(member.name) != name) continue;
    if (found != nullptr) fail(fmt::format("has {} twice", json_quoted_short(name)));
    found = &member.value;
  }
  if (found == nullptr) fail(fmt::format("lacks {}", json_quoted_short(name)));
  return {*this, name, *found};
}

bool JsonView::has(std::string_view name) const {
  expect(value_.IsObject(), "is no object");
  for (const auto& member : value_.GetObject()) {
    if (as_text(member.name) == name) return true;
  }
  return false;
}

std::string_view JsonView::text() const {
  expect(value_.IsString(), "is no text");
  return as_text(value_);
}

std::uint64_t JsonView::whole() const {
  expect(value_.IsInt64() && value_.GetInt64() >= 0, "is no whole number below 2^63");
  return static_cast<std::uint64_t>(value_.GetInt64());
}

std::int64_t JsonView::whole_below(std::int64_t limit) const {
  const auto number = static_cast<std::int64_t>(whole());
  if (number >= limit) fail(fmt::format("is {}, which is not below {}", number, limit));
  return number;
}

double JsonView::number() const {
  expect(value_.IsNumber(), "is no number");
  return value_.GetDouble();
}

std::size_t JsonView::size() const {
  expect(value_.IsArray(), "is no list");
  return value_.Size();
}

void JsonView::for_each(const SeeElement& see) const {
  expect(value_.IsArray(), "is no list");
  std::size_t index = 0;
  for (const rapidjson::Value& element : value_.GetArray()) {
    see(JsonView(*this, index++, element));
  }
}

void JsonView::for_each_member(const SeeMember& see) const {
  expect(value_.IsObject(), "is no object");
  std::set<std::string_view> names;  // a tree: colliding hashes would be an attack
  for (const auto& member : value_.GetObject()) {
    const std::string_view name = as_text(member.name);
    if (!names.insert(name).second) fail(fmt::format("has {} twice", json_quoted_short(name)));
    see(name, JsonView(*this, name, member.value));
  }
}

}  // namespace zeroshard
