#include "zeroshard/checkpoint/json_events.h"

#include <charconv>

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "zeroshard/base/utf8.h"
#include "zeroshard/checkpoint/raw_numbers.h"

namespace zeroshard {
namespace {

// RapidJSON's handler, turned into ours.
class Adapter : public RawNumbers {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  bool Null() { return literal(); }
  bool Bool(bool) { return literal(); }
  bool RawNumber(const char* digits, rapidjson::SizeType size, bool) {
    events_.number({digits, size});
    return true;
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    events_.text({text, size});
    return !has_lone_surrogate({text, size});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    events_.key({text, size});
    return !has_lone_surrogate({text, size});
  }
  bool StartObject() {
    events_.open_object();
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    events_.close_object();
    return true;
  }
  bool StartArray() {
    events_.open_list();
    return true;
  }
  bool EndArray(rapidjson::SizeType) {
    events_.close_list();
    return true;
  }

 private:
  bool literal() {
    events_.literal();
    return true;
  }

  JsonEvents& events_;
};

}  // namespace

std::optional<std::string> read_json_events(std::string_view json, JsonEvents& events) {
  // To RapidJSON a zero byte is the end, and what follows would be passed over in silence.
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos) {
    return fmt::format("a zero byte at byte {}", zero);
  }
  rapidjson::MemoryStream stream(json.data(), json.size());
  Adapter adapter(events);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, adapter);
  if (result) return std::nullopt;
  return fmt::format("at byte {}: {}", result.Offset(), rapidjson::GetParseError_En(result.Code()));
}

std::optional<std::uint64_t> parse_whole_number(std::string_view digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

bool has_lone_surrogate(std::string_view text) {
  for (std::size_t at = text.find('\xED'); at != std::string_view::npos;
       at = text.find('\xED', at + 1)) {
    if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xA0U) return true;
  }
  return false;
}

std::string json_quoted(std::string_view text) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  return {buffer.GetString(), buffer.GetSize()};
}

std::string json_quoted_short(std::string_view text) { return json_quoted(shortened(text, 80)); }

}  // namespace zeroshard
