// Token files, cut into samples. Several files count as one sequence, one behind the other, but no
// sample crosses from one file into the next: what follows is another text.
//
// A sample is sequence_length + 1 tokens: the inputs are all but the last, the targets all but the
// first. Samples of a file follow each other and share one token, so that every token but a file's
// first is a target once; what is left at a file's end (fewer than sequence_length targets) is
// unused.
//
//   const TokenFiles files({.files = {"train.bin"}, .format = TokenFormat::u16,
//                           .vocabulary = 50257, .sequence_length = 1024});
//   files.read_sample(17, inputs, targets);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/trainer/mapped_file.h"
#include "zeroshard/trainer/options.h"

namespace zeroshard {

// "text", "u16", "u32": as users write them.
std::string_view name_of(TokenFormat format);
int bytes_per_token(TokenFormat format);

class TokenFiles {
 public:
  // Maps all files. Throws ConfigError where one cannot be used: see MappedFile; also a size that
  // is no multiple of the token's, or fewer tokens than one sample has.
  explicit TokenFiles(const DataOptions& options);

  std::int64_t token_count() const { return token_count_; }
  std::int64_t sample_count() const { return sample_count_; }
  std::int64_t sequence_length() const { return options_.sequence_length; }

  // Where a sample begins, in tokens of all files one behind the other.
  std::int64_t sample_start(std::int64_t sample) const;

  // Fills sequence_length numbers each. A token that the vocabulary does not have is a ConfigError
  // with file, position and token. May be called from several threads at once.
  void read_sample(std::int64_t sample, std::span<std::int64_t> inputs,
                   std::span<std::int64_t> targets) const;

 private:
  struct File {
    MappedFile data;
    std::int64_t first_token = 0;   // of all files' tokens
    std::int64_t first_sample = 0;  // of all files' samples
  };

  void add_file(const std::string& path);
  const File& file_of(std::int64_t sample) const;
  std::int64_t offset_in(const File& file, std::int64_t sample) const;
  void read(const File& file, std::int64_t offset, std::span<std::int64_t> tokens) const;
  [[noreturn]] void refuse_token(const File& file, std::int64_t position, std::int64_t token) const;

  DataOptions options_;
  std::vector<File> files_;
  std::int64_t token_count_ = 0;
  std::int64_t sample_count_ = 0;
};

}  // namespace zeroshard
