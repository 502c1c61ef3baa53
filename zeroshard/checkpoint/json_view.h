// A value in a JSON document that anybody may have written: what is asked for is there and of the
// right type, or a StorageError names its place. For the sources of this folder only; includers
// need RapidJSON.
//
//   const JsonDocument document(text, "DIR/manifest.json", "manifest");
//   document.root().at("files").for_each([&](const JsonView& file) { file.at("name").text(); });
//   // this is no sound manifest: files[3].name is no text
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <rapidjson/document.h>

namespace zeroshard {

class JsonDocument;

// Lives as long as the view that it was had from: the place is a chain of them.
class JsonView {
 public:
  JsonView(const JsonDocument& document, const rapidjson::Value& value)
      : document_(document), value_(value) {}
  JsonView(const JsonView&) = delete;
  JsonView& operator=(const JsonView&) = delete;

  // A member that must be there; twice is an error like none.
  JsonView at(std::string_view name) const;
  bool has(std::string_view name) const;

  std::string_view text() const;
  std::uint64_t whole() const;  // from 0 to 2^63 - 1
  std::int64_t whole_below(std::int64_t limit) const;
  double number() const;  // any that is one
  const rapidjson::Value& value() const { return value_; }

  std::size_t size() const;  // of a list
  using SeeElement = std::function<void(const JsonView&)>;
  void for_each(const SeeElement& see) const;
  // Of an object; two of one name are an error.
  using SeeMember = std::function<void(std::string_view name, const JsonView&)>;
  void for_each_member(const SeeMember& see) const;

  // "files[3].name is no text"
  [[noreturn]] void fail(std::string_view what) const;

 private:
  JsonView(const JsonView& parent, std::string_view name, const rapidjson::Value& value)
      : document_(parent.document_), value_(value), parent_(&parent), name_(name) {}
  JsonView(const JsonView& parent, std::size_t index, const rapidjson::Value& value)
      : document_(parent.document_), value_(value), parent_(&parent), index_(index) {}

  std::string place() const;
  void expect(bool is_so, std::string_view what) const {
    if (!is_so) fail(what);
  }

  const JsonDocument& document_;
  const rapidjson::Value& value_;
  const JsonView* parent_ = nullptr;
  std::string_view name_ = {};
  std::size_t index_ = 0;
};

class JsonDocument {
 public:
  // `file` and `kind` are for messages: "this is no sound KIND: ...: FILE".
  JsonDocument(std::string_view text, std::string file, std::string kind);

  JsonView root() const { return {*this, document_}; }
  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::string file_;
  std::string kind_;
  rapidjson::Document document_;
};

}  // namespace zeroshard
