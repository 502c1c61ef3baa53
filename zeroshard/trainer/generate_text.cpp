#include "zeroshard/trainer/generate_text.h"

#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/models/generate.h"
#include "zeroshard/models/initializer.h"
#include "zeroshard/trainer/gpt_task.h"
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/weight_files.h"
#include "zeroshard/trainer/weights.h"

namespace zeroshard {
namespace {

std::vector<std::int64_t> bytes_of_text(const std::string& text) {
  std::vector<std::int64_t> tokens;
  for (const char each : text) tokens.push_back(static_cast<unsigned char>(each));
  return tokens;
}

}  // namespace

int generate_text(const GenerateOptions& options) {
  const GptOptions model_options = generating_model(options);
  const StateFiles files = StateFiles::open(options.folder);
  Gpt model(model_options);
  check_weights(files, model_options);
  fill_parameters(*model, weights_from(files));
  const auto tokens = generate(*model, bytes_of_text(options.prompt),
                               {.count = options.count,
                                .temperature = options.temperature,
                                .top_k = options.top_k,
                                .seed = options.seed});
  fmt::print("{}{}\n", options.prompt, text_of(tokens, model_options.vocabulary));
  std::fflush(stdout);
  return 0;
}

}  // namespace zeroshard
