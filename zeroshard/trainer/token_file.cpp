#include "zeroshard/trainer/token_file.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

struct FormatInfo {
  std::string_view name;
  int bytes;
};

// In the order of the enum.
constexpr std::array<FormatInfo, 3> kFormats{{{"text", 1}, {"u16", 2}, {"u32", 4}}};

const FormatInfo& info_of(TokenFormat format) { return kFormats[static_cast<std::size_t>(format)]; }

// Byte by byte, so that the file means the same on every machine; compilers make one load of it.
template <int Bytes>
std::int64_t token_at(const std::byte* data, std::int64_t index) {
  std::uint32_t token = 0;
  for (int byte = 0; byte < Bytes; ++byte) {
    token |= std::to_integer<std::uint32_t>(data[index * Bytes + byte]) << (8 * byte);
  }
  return token;
}

// Returns the greatest token: one comparison per call tells whether all are in the vocabulary.
template <int Bytes>
std::int64_t widen(const std::byte* data, std::span<std::int64_t> tokens) {
  std::int64_t greatest = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = token_at<Bytes>(data, static_cast<std::int64_t>(i));
    greatest = std::max(greatest, tokens[i]);
  }
  return greatest;
}

std::int64_t widen(TokenFormat format, const std::byte* data, std::span<std::int64_t> tokens) {
  switch (format) {
    case TokenFormat::text: return widen<1>(data, tokens);
    case TokenFormat::u16: return widen<2>(data, tokens);
    case TokenFormat::u32: return widen<4>(data, tokens);
  }
  return 0;
}

void check_options(const DataOptions& options) {
  if (options.files.empty()) {
    throw ConfigError({.what = "no data file is given", .remedy = "name at least one"});
  }
  if (options.sequence_length < 1) {
    throw ConfigError({.what = "the sequence length is out of range",
                       .value = std::to_string(options.sequence_length),
                       .remedy = "give at least 1"});
  }
  if (options.vocabulary < 1) {
    throw ConfigError({.what = "the vocabulary is out of range",
                       .value = std::to_string(options.vocabulary),
                       .remedy = "give at least 1"});
  }
}

std::int64_t count_tokens(const MappedFile& file, TokenFormat format) {
  const auto [name, width] = info_of(format);
  const auto size = static_cast<std::int64_t>(file.bytes().size());
  if (size % width == 0) return size / width;
  throw ConfigError(
      {.what = fmt::format("the data file's size is no multiple of {}, the bytes of a {} token",
                           width, name),
       .value = fmt::format("{}, {} bytes", file.path(), size),
       .remedy = "choose the format that it was written in, or write it again"});
}

}  // namespace

std::string_view name_of(TokenFormat format) { return info_of(format).name; }

int bytes_per_token(TokenFormat format) { return info_of(format).bytes; }

TokenFiles::TokenFiles(const DataOptions& options) : options_(options) {
  check_options(options_);
  for (const std::string& path : options_.files) add_file(path);
}

void TokenFiles::add_file(const std::string& path) {
  MappedFile data(path);
  const std::int64_t tokens = count_tokens(data, options_.format);
  if (tokens <= options_.sequence_length) {
    const std::string shorter =
        tokens > 1 ? fmt::format(", or shorten the sequence to {} or less", tokens - 1) : "";
    throw ConfigError(
        {.what = fmt::format("the data file is shorter than a sample, which is the sequence length "
                             "of {} and one more token",
                             options_.sequence_length),
         .value = fmt::format("{}, {} token{}", path, tokens, tokens == 1 ? "" : "s"),
         .remedy = "leave it out, join it to another file" + shorter});
  }
  files_.push_back({std::move(data), token_count_, sample_count_});
  token_count_ += tokens;
  sample_count_ += (tokens - 1) / options_.sequence_length;
}

const TokenFiles::File& TokenFiles::file_of(std::int64_t sample) const {
  ZS_CHECK(sample >= 0 && sample < sample_count_, "sample {} of {}", sample, sample_count_);
  return *(std::ranges::upper_bound(files_, sample, {}, &File::first_sample) - 1);
}

std::int64_t TokenFiles::offset_in(const File& file, std::int64_t sample) const {
  return (sample - file.first_sample) * options_.sequence_length;
}

std::int64_t TokenFiles::sample_start(std::int64_t sample) const {
  const File& file = file_of(sample);
  return file.first_token + offset_in(file, sample);
}

void TokenFiles::read_sample(std::int64_t sample, std::span<std::int64_t> inputs,
                             std::span<std::int64_t> targets) const {
  const auto length = static_cast<std::size_t>(options_.sequence_length);
  ZS_CHECK_EQ(inputs.size(), length);
  ZS_CHECK_EQ(targets.size(), length);
  const File& file = file_of(sample);
  const std::int64_t offset = offset_in(file, sample);
  read(file, offset, inputs);
  std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
  read(file, offset + options_.sequence_length, targets.last(1));
}

void TokenFiles::read(const File& file, std::int64_t offset, std::span<std::int64_t> tokens) const {
  const std::byte* data = file.data.bytes().data() + offset * bytes_per_token(options_.format);
  if (widen(options_.format, data, tokens) < options_.vocabulary) return;
  const auto unknown = std::ranges::find_if(
      tokens, [&](std::int64_t token) { return token >= options_.vocabulary; });
  refuse_token(file, offset + (unknown - tokens.begin()), *unknown);
}

void TokenFiles::refuse_token(const File& file, std::int64_t position, std::int64_t token) const {
  throw ConfigError(
      {.what = fmt::format("token {} is beyond the vocabulary of {}", token, options_.vocabulary),
       .value = fmt::format("{}, read as {}, at token {}", file.data.path(),
                            name_of(options_.format), position),
       .remedy = "give the vocabulary of the tokenizer that wrote the file, or its right format"});
}

}  // namespace zeroshard
