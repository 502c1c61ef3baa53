// The words of `train` and `generate`. `zeroshard` reads them, looks for mistakes, and hands them
// on to `zeroshard-train`, which reads them with the same functions:
//
//   zeroshard-train train WORDS...        zeroshard-train generate WORDS...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "zeroshard/trainer/options.h"

namespace zeroshard::cli {

// The options must live as long as the app is used.
void add_train_options(CLI::App& verb, TrainOptions& options);
void add_generate_options(CLI::App& verb, GenerateOptions& options);

// Words that give the same options again. What has its default is left out.
std::vector<std::string> words_of(const TrainOptions& options);
std::vector<std::string> words_of(const GenerateOptions& options);

// A whole number in decimal digits or as 1e3 and 2.5K, of this least and greatest value. Unlike
// CLI11's own, which takes 010 for 8, -1 for 2^64 - 1, and what is too great for the greatest.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t greatest);

}  // namespace zeroshard::cli
