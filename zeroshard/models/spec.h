// Models as people write them on a command line, and as config.json keeps them.
//
//   read_model("gpt:layers=12,hidden=768,heads=12,seq=1024,vocab=50257");
//   read_model("gpt:positions=rotary,norm=rms,activation=swiglu,kv_heads=2,tied=true");
//   read_model("dense:inputs=1,outputs=1");
//   read_model("runs/small/config.json");      // or its folder
#pragma once

#include <string>
#include <string_view>

#include "zeroshard/models/options.h"

namespace zeroshard {

// What is not given keeps its default. Throws ConfigError: an unknown key with the nearest known
// one, a value that does not fit its key, options that do not fit each other, an unreadable file.
ModelOptions read_model(const std::string& text);

// The text of config.json: `model_type`, then every option by its full name. `source` is what
// messages call the text.
ModelOptions model_from_json(std::string_view json, const std::string& source = "the model");
std::string to_json(const ModelOptions& options);

// "gpt, 0.86 M parameters: 4 layers, hidden 128, ...".
std::string short_description(const ModelOptions& options);

}  // namespace zeroshard
