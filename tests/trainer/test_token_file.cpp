// Token files: what is read, where samples begin, and what a wrong file is told.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/run_program.h"
#include "zeroshard/base/error.h"
#include "zeroshard/trainer/token_file.h"

namespace zeroshard::test {
namespace {

using Tokens = std::vector<std::int64_t>;

// Little-endian, by plain division.
std::string encode(const Tokens& tokens, int width) {
  std::string bytes;
  for (std::int64_t token : tokens) {
    for (int byte = 0; byte < width; ++byte, token /= 256) {
      bytes.push_back(static_cast<char>(token % 256));
    }
  }
  return bytes;
}

Tokens counting(std::int64_t first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

struct Sample {
  Tokens inputs, targets;
};

Sample sample_of(const TokenFiles& files, std::int64_t index) {
  const auto length = static_cast<std::size_t>(files.sequence_length());
  Sample sample{Tokens(length, -1), Tokens(length, -1)};
  files.read_sample(index, sample.inputs, sample.targets);
  return sample;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "nothing was refused";
}

std::string refusal_of(const DataOptions& options) {
  return refusal([&] { const TokenFiles files(options); });
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}

TEST(TokenFiles, TextIsReadAsBytes) {
  const TemporaryFile file("abc\xff\x01z!");  // 7 tokens: two samples of 3 targets
  const TokenFiles files({.files = {file.path()}, .sequence_length = 3});
  EXPECT_EQ(files.token_count(), 7);
  ASSERT_EQ(files.sample_count(), 2);
  EXPECT_EQ(sample_of(files, 0).inputs, (Tokens{'a', 'b', 'c'}));
  EXPECT_EQ(sample_of(files, 0).targets, (Tokens{'b', 'c', 255}));
  EXPECT_EQ(sample_of(files, 1).inputs, (Tokens{255, 1, 'z'}));
  EXPECT_EQ(sample_of(files, 1).targets, (Tokens{1, 'z', '!'}));
}

TEST(TokenFiles, WideTokensAreLittleEndian) {
  const Tokens tokens{1, 256, 65535, 0x1234, 7};
  for (const auto& [format, width] :
       {std::pair{TokenFormat::u16, 2}, std::pair{TokenFormat::u32, 4}}) {
    const TemporaryFile file(encode(tokens, width));
    const TokenFiles files(
        {.files = {file.path()}, .format = format, .vocabulary = 65536, .sequence_length = 4});
    EXPECT_EQ(bytes_per_token(format), width);
    ASSERT_EQ(files.sample_count(), 1) << name_of(format);
    EXPECT_EQ(sample_of(files, 0).inputs, (Tokens{1, 256, 65535, 0x1234}));
    EXPECT_EQ(sample_of(files, 0).targets, (Tokens{256, 65535, 0x1234, 7}));
  }
}

TEST(TokenFiles, TheGreatestWideTokenStaysPositive) {
  const TemporaryFile file(encode({0xFFFFFFFF, 0x80000000}, 4));
  const TokenFiles files({.files = {file.path()},
                          .format = TokenFormat::u32,
                          .vocabulary = 0x100000000,
                          .sequence_length = 1});
  EXPECT_EQ(sample_of(files, 0).inputs, Tokens{0xFFFFFFFF});
  EXPECT_EQ(sample_of(files, 0).targets, Tokens{0x80000000});
}

// Every token but a file's first is a target once, in order, except the rest at a file's end.
TEST(TokenFiles, SamplesCoverEachFileAndCrossNone) {
  const std::vector<std::size_t> counts{23, 6, 11, 40, 7};
  const std::int64_t length = 5;
  std::vector<std::unique_ptr<TemporaryFile>> files;
  DataOptions options{
      .files = {}, .format = TokenFormat::u16, .vocabulary = 1000, .sequence_length = length};
  Tokens expected_targets, expected_starts;
  std::int64_t first = 0;
  for (const std::size_t count : counts) {
    files.push_back(std::make_unique<TemporaryFile>(encode(counting(first, count), 2)));
    options.files.push_back(files.back()->path());
    for (std::int64_t start = 0; start + length + 1 <= std::int64_t(count); start += length) {
      expected_starts.push_back(first + start);
      const Tokens targets = counting(first + start + 1, std::size_t(length));
      expected_targets.insert(expected_targets.end(), targets.begin(), targets.end());
    }
    first += std::int64_t(count);
  }
  const TokenFiles read(options);
  EXPECT_EQ(read.token_count(), first);
  ASSERT_EQ(read.sample_count(), std::int64_t(expected_starts.size()));
  Tokens targets;
  for (std::int64_t sample = 0; sample < read.sample_count(); ++sample) {
    EXPECT_EQ(read.sample_start(sample), expected_starts[std::size_t(sample)]);
    const Sample got = sample_of(read, sample);
    EXPECT_EQ(got.inputs, counting(read.sample_start(sample), std::size_t(length)));
    targets.insert(targets.end(), got.targets.begin(), got.targets.end());
  }
  EXPECT_EQ(targets, expected_targets);
}

TEST(TokenFiles, AFileOfExactlyOneSampleIsEnough) {
  const TemporaryFile file("abcd");
  EXPECT_EQ(TokenFiles({.files = {file.path()}, .sequence_length = 3}).sample_count(), 1);
  const std::string said = refusal_of({.files = {file.path()}, .sequence_length = 4});
  expect_contains(said, "shorter than a sample");
  expect_contains(said, file.path() + ", 4 tokens");
  expect_contains(said, "shorten the sequence to 3 or less");
}

TEST(TokenFiles, FilesThatCannotBeReadAreNamed) {
  const auto said = [](const std::string& path) { return refusal_of({.files = {path}}); };
  EXPECT_EQ(said("/nowhere/train.bin"),
            "[config] no such data file: /nowhere/train.bin; check the path; it is looked for on "
            "every host");
  expect_contains(said("/tmp"), "the data file is a folder: /tmp; name the files in it");
  expect_contains(said("/dev/null"), "is no plain file: /dev/null");
  const TemporaryFile empty("");
  expect_contains(said(empty.path()), "the data file is empty: " + empty.path());
  expect_contains(refusal_of({}), "no data file is given");
}

// Opening one for reading would wait for a writer.
TEST(TokenFiles, APipeIsRefusedAndNotWaitedFor) {
  const TemporaryFile name("");
  const std::string path = name.path() + ".pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_contains(refusal_of({.files = {path}}), "is no plain file");
  std::filesystem::remove(path);
}

TEST(TokenFiles, ASizeThatDoesNotFitTheFormatIsRefused) {
  const TemporaryFile file("12345");
  const std::string said =
      refusal_of({.files = {file.path()}, .format = TokenFormat::u32, .sequence_length = 1});
  expect_contains(said, "no multiple of 4, the bytes of a u32 token");
  expect_contains(said, file.path() + ", 5 bytes");
}

TEST(TokenFiles, SizesOutOfRangeAreRefused) {
  const TemporaryFile file("12345");
  expect_contains(refusal_of({.files = {file.path()}, .sequence_length = 0}), "sequence length");
  expect_contains(refusal_of({.files = {file.path()}, .vocabulary = 0}), "vocabulary");
}

// Found when it is read, wherever in the sample it stands: first, middle, or the last target.
TEST(TokenFiles, ATokenBeyondTheVocabularyIsNamed) {
  for (const std::size_t position : {0U, 2U, 4U, 5U, 8U}) {
    Tokens tokens = counting(0, 9);
    tokens[position] = 500;
    const TemporaryFile good(encode(counting(0, 9), 2)), bad(encode(tokens, 2));
    const TokenFiles files({.files = {good.path(), bad.path()},
                            .format = TokenFormat::u16,
                            .vocabulary = 500,
                            .sequence_length = 4});
    sample_of(files, 0), sample_of(files, 1);
    const std::string said = refusal([&] { sample_of(files, 2), sample_of(files, 3); });
    expect_contains(said, "token 500 is beyond the vocabulary of 500");
    expect_contains(said, bad.path() + ", read as u16, at token " + std::to_string(position));
  }
}

TEST(TokenFiles, MovedFilesStayMapped) {
  const TemporaryFile file("abcd");
  TokenFiles first({.files = {file.path()}, .sequence_length = 3});
  const TokenFiles second(std::move(first));
  EXPECT_EQ(sample_of(second, 0).inputs, (Tokens{'a', 'b', 'c'}));
}

TEST(TokenFiles, ASampleThatIsNotThereIsAnInvariant) {
  const TemporaryFile file("abcd");
  const TokenFiles files({.files = {file.path()}, .sequence_length = 3});
  EXPECT_THROW(sample_of(files, -1), InvariantError);
  EXPECT_THROW(sample_of(files, 1), InvariantError);
}

}  // namespace
}  // namespace zeroshard::test
