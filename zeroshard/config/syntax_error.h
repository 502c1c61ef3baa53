// What is wrong where the parser gave up, in the words of the person who wrote the file.
#pragma once

#include <cstddef>
#include <string>

#include <rapidjson/error/error.h>

#include "zeroshard/config/relaxed_syntax.h"

namespace zeroshard::config {

struct SyntaxError {
  std::size_t offset = 0;  // in the source
  std::string what;
  std::string remedy;
};

// `offset` is the parser's, in json.text.
SyntaxError explain_syntax(const PlainJson& json, rapidjson::ParseErrorCode code,
                           std::size_t offset, std::size_t source_size);

}  // namespace zeroshard::config
