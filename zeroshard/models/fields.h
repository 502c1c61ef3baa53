// The keys of a model's options: how each is spelt, read and written.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/models/options.h"

namespace zeroshard {

template <typename Options>
struct Field {
  std::string_view name;   // in config.json
  std::string_view alias;  // shorter, for the command line; may be empty
  // Both throw nothing; read() says false where the text is not what `expects` says.
  std::function<bool(Options&, std::string_view text)> read;
  std::function<std::string(const Options&)> to_json;
  std::string expects;
};

const std::vector<Field<GptOptions>>& fields_of(const GptOptions&);
const std::vector<Field<DenseOptions>>& fields_of(const DenseOptions&);

}  // namespace zeroshard
