#include "zeroshard/checkpoint/export_config.h"

#include <string_view>

#include <rapidjson/memorystream.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>

#include "zeroshard/checkpoint/raw_numbers.h"

namespace zeroshard {
namespace {

using Size = rapidjson::SizeType;

std::string_view torch_name_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return "bfloat16";
    case DType::fp16: return "float16";
    default: return "float32";
  }
}

// Writes what it is told, numbers digit by digit, and the outermost object's dtype as another.
class Rewriter : public RawNumbers {
 public:
  explicit Rewriter(DType dtype) : word_(torch_name_of(dtype)) { writer_.SetIndent(' ', 2); }

  bool found() const { return found_; }
  std::string text() const { return std::string(buffer_.GetString(), buffer_.GetSize()) + "\n"; }

  bool RawNumber(const char* digits, Size size, bool) {
    return writer_.RawValue(digits, size, rapidjson::kNumberType);
  }
  bool String(const char* text, Size size, bool) {
    if (!is_dtype_) return writer_.String(text, size);
    is_dtype_ = false;
    found_ = true;
    return writer_.String(word_.data(), static_cast<Size>(word_.size()));
  }
  bool Key(const char* text, Size size, bool) {
    const std::string_view key(text, size);
    is_dtype_ = depth_ == 1 && (key == "dtype" || key == "torch_dtype");
    return writer_.Key(text, size);
  }
  bool StartObject() { return ++depth_, writer_.StartObject(); }
  bool EndObject(Size members) { return --depth_, writer_.EndObject(members); }
  bool StartArray() { return ++depth_, writer_.StartArray(); }
  bool EndArray(Size elements) { return --depth_, writer_.EndArray(elements); }
  bool Null() { return writer_.Null(); }
  bool Bool(bool value) { return writer_.Bool(value); }

 private:
  const std::string_view word_;
  rapidjson::StringBuffer buffer_;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer_{buffer_};
  int depth_ = 0;
  bool is_dtype_ = false;  // what comes next
  bool found_ = false;
};

}  // namespace

std::string with_dtype(const std::string& config, std::optional<DType> dtype) {
  if (!dtype) return config;
  Rewriter rewriter(*dtype);
  rapidjson::MemoryStream stream(config.data(), config.size());
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  rapidjson::Reader reader;
  const bool is_json = !reader.Parse<kFlags>(stream, rewriter).IsError();
  return is_json && rewriter.found() ? rewriter.text() : config;
}

}  // namespace zeroshard
