#include "zeroshard/checkpoint/export_config.h"

#include <string_view>

#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

namespace zeroshard {
namespace {

std::string_view torch_name_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return "bfloat16";
    case DType::fp16: return "float16";
    default: return "float32";
  }
}

}  // namespace

std::string with_dtype(const std::string& config, std::optional<DType> dtype) {
  if (!dtype) return config;
  rapidjson::Document document;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag;
  document.Parse<kFlags>(config.c_str());
  if (document.HasParseError() || !document.IsObject()) return config;
  bool named = false;
  for (const char* name : {"dtype", "torch_dtype"}) {
    const auto found = document.FindMember(name);
    if (found == document.MemberEnd() || !found->value.IsString()) continue;
    const std::string_view word = torch_name_of(*dtype);
    found->value.SetString(word.data(), static_cast<rapidjson::SizeType>(word.size()),
                           document.GetAllocator());
    named = true;
  }
  if (!named) return config;
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 2);
  document.Accept(writer);
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace zeroshard
