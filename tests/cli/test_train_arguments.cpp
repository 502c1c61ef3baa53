// The words of `train` and `generate`: what they mean, what is refused, and that they can be handed
// on to another program without a change.
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "cli/train_arguments.h"

namespace zeroshard {

// Beside the types, where GoogleTest looks for it.
static auto fields(const TrainOptions& o) {
  return std::tie(o.config, o.model, o.data, o.format, o.eval_data, o.eval_every, o.steps, o.epochs,
                  o.lr, o.batch_size, o.seed, o.device, o.log, o.trace, o.out, o.init, o.strict,
                  o.no_sample, o.save, o.save_every, o.keep, o.on_save_error, o.resume);
}

static auto fields(const GenerateOptions& o) {
  return std::tie(o.folder, o.prompt, o.count, o.temperature, o.top_k, o.seed);
}

}  // namespace zeroshard

namespace zeroshard::test {
namespace {

using Words = std::vector<std::string>;

// As the training program does it: an app with two verbs.
struct Program {
  CLI::App app;
  TrainOptions train;
  GenerateOptions generate;

  explicit Program(const Words& words) {
    app.require_subcommand(1);
    cli::add_train_options(*app.add_subcommand("train"), train);
    cli::add_generate_options(*app.add_subcommand("generate"), generate);
    Words reversed(words.rbegin(), words.rend());  // as CLI11 wants a vector
    app.parse(reversed);
  }
};

Words behind(const std::string& verb, Words words) {
  words.insert(words.begin(), verb);
  return words;
}

TrainOptions train_options(const Words& words) { return Program(behind("train", words)).train; }

GenerateOptions generate_options(const Words& words) {
  return Program(behind("generate", words)).generate;
}

std::string refusal(const Words& words) {
  try {
    const Program program(words);
    return "";
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

void expect_refused(const Words& words, const std::string& says) {
  EXPECT_NE(refusal(words).find(says), std::string::npos) << refusal(words);
}

TEST(TrainArguments, NothingGivenIsAllDefaults) {
  EXPECT_EQ(fields(train_options({})), fields(TrainOptions{}));
  EXPECT_EQ(cli::words_of(TrainOptions{}), Words{});
}

TEST(TrainArguments, EveryOptionArrives) {
  const TrainOptions options = train_options({"--config",
                                              "ds.json",
                                              "--model",
                                              "gpt:layers=2",
                                              "--data",
                                              "a",
                                              "b",
                                              "--data",
                                              "c",
                                              "--data-format",
                                              "u16",
                                              "--eval-data",
                                              "v",
                                              "--eval-every",
                                              "10",
                                              "--steps",
                                              "500",
                                              "--seed",
                                              "7",
                                              "--device",
                                              "cuda:3",
                                              "--log",
                                              "l.jsonl",
                                              "--trace",
                                              "t.json",
                                              "--out",
                                              "out",
                                              "--init",
                                              "in",
                                              "--strict",
                                              "--lr",
                                              "3e-4",
                                              "--batch-size",
                                              "64",
                                              "--no-sample"});
  const TrainOptions expected{.config = "ds.json",
                              .model = "gpt:layers=2",
                              .data = {"a", "b", "c"},
                              .format = TokenFormat::u16,
                              .eval_data = {"v"},
                              .eval_every = 10,
                              .steps = 500,
                              .epochs = std::nullopt,
                              .lr = 3e-4,
                              .batch_size = 64,
                              .seed = 7,
                              .device = "cuda:3",
                              .log = "l.jsonl",
                              .trace = "t.json",
                              .out = "out",
                              .init = "in",
                              .strict = true,
                              .no_sample = true};
  EXPECT_EQ(fields(options), fields(expected));
  EXPECT_EQ(train_options({"--epochs", "3"}).epochs, 3);
  EXPECT_EQ(train_options({"--data-format", "u32"}).format, TokenFormat::u32);
}

TEST(TrainArguments, GenerateTakesAFolderAndItsOptions) {
  const GenerateOptions options = generate_options(
      {"runs/a", "--prompt", "To be", "--count", "5", "--temperature", "0", "--top-k", "40"});
  EXPECT_EQ(options.folder, "runs/a");
  EXPECT_EQ(options.prompt, "To be");
  EXPECT_EQ(options.count, 5);
  EXPECT_EQ(options.temperature, 0.0);
  EXPECT_EQ(options.top_k, 40);
  EXPECT_EQ(options.seed, GenerateOptions{}.seed);
  expect_refused({"generate"}, "DIR is required");
}

TEST(TrainArguments, WhatExcludesAndNeedsEachOther) {
  expect_refused({"train", "--steps", "1", "--epochs", "1"}, "excludes");
  expect_refused({"train", "--eval-every", "5"}, "--eval-every requires --eval-data");
  expect_refused({"train", "--keep", "5"}, "--keep requires --save");
  expect_refused({"train", "--resume", "a", "--init", "b"}, "excludes");
}

TEST(TrainArguments, NumbersAreReadAsWritten) {
  EXPECT_EQ(train_options({"--steps", "010"}).steps, 10);  // not 8
  EXPECT_EQ(train_options({"--seed", "18446744073709551615"}).seed,
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(train_options({"--steps", "1e3"}).steps, 1000);
  EXPECT_EQ(train_options({"--steps", "2.5e3"}).steps, 2500);
  EXPECT_EQ(train_options({"--batch-size", "1K"}).batch_size, 1000);
  EXPECT_EQ(generate_options({"d", "--count", "1E2"}).count, 100);
  for (const char* wrong : {"0", "-1", "1.5", "1e-1", "1.5e0", "1e13", "1e", "e3", "1Z", "ten", "",
                            " 5", "5 ", "0x10", "99999999999999999999", "18446744073709551617"}) {
    expect_refused({"train", "--steps", wrong}, "--steps: expected a whole number from 1 to");
  }
  expect_refused({"train", "--seed", "-1"}, "--seed: expected a whole number from 0 to");
  expect_refused({"train", "--seed", "18446744073709551616"}, "--seed");
  expect_refused({"train", "--epochs", "0"}, "--epochs");
  expect_refused({"generate", "d", "--count", "0"}, "--count");
  expect_refused({"generate", "d", "--top-k", "-3"}, "--top-k");
}

TEST(TrainArguments, CheckpointsAreSavedEverySoManyStepsOrSoMuchTime) {
  const auto every = [](const char* text) {
    return train_options({"--save", "d", "--save-every", text}).save_every;
  };
  EXPECT_EQ(every("500"), (SaveEvery{.steps = 500}));
  EXPECT_EQ(every("1e3"), (SaveEvery{.steps = 1000}));
  EXPECT_EQ(every("2K"), (SaveEvery{.steps = 2000}));
  EXPECT_EQ(every("10min"), (SaveEvery{.time = std::chrono::minutes(10)}));
  EXPECT_EQ(every("10m"), (SaveEvery{.time = std::chrono::minutes(10)})) << "no ten million";
  EXPECT_EQ(every("1.5h"), (SaveEvery{.time = std::chrono::minutes(90)}));
  for (const char* wrong : {"0", "-1", "often", "0s", "", "1e13"}) {
    expect_refused({"train", "--save", "d", "--save-every", wrong},
                   "--save-every: expected a number of steps, or a time such as 10min");
  }
  EXPECT_EQ(train_options({"--save", "d", "--keep", "0"}).keep, 0);
  EXPECT_EQ(train_options({"--save", "d", "--on-save-error", "stop"}).on_save_error,
            OnSaveError::stop);
  expect_refused({"train", "--save", "d", "--on-save-error", "cry"}, "--on-save-error");
  EXPECT_EQ(train_options({"--resume", "auto"}).resume, "auto");
}

TEST(TrainArguments, ValuesInPlaceOfTheConfigsMustMakeSense) {
  for (const char* wrong : {"0", "-1e-3", "nan", "inf", "fast", "1,5", "", "1e-3x"}) {
    expect_refused({"train", "--lr", wrong}, "--lr: expected a number above 0, such as 3e-4, not");
  }
  for (const char* wrong : {"0", "-8", "1.5", "2e9", "many"}) {
    expect_refused({"train", "--batch-size", wrong},
                   "--batch-size: expected a whole number from 1");
  }
}

TEST(TrainArguments, WordsOfAChoiceAreRefusedByName) {
  for (const char* wrong : {"gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:99999", "cpu:0"}) {
    expect_refused({"train", "--device", wrong}, "expected cpu, cuda or cuda:N, not");
  }
  for (const char* right : {"cpu", "cuda", "cuda:0", "cuda:15"}) {
    EXPECT_EQ(train_options({"--device", right}).device, right);
  }
  expect_refused({"train", "--data-format", "u8"}, "expected text, u16 or u32, not \"u8\"");
  expect_refused({"train", "--data-format", "1"}, "expected text, u16 or u32, not \"1\"");
  for (const char* wrong : {"-0.1", "nan", "inf", "hot", "1,5", ""}) {
    expect_refused({"generate", "d", "--temperature", wrong}, "expected a number of 0 or more");
  }
}

// Texts that command lines stumble over, and random bytes (no zero: arguments end there).
class Source {
 public:
  bool coin() { return number(2) == 0; }

  std::uint64_t number(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }

  std::string text() {
    static const std::vector<std::string> odd = {
        ":",       "--",    "-",     "--steps", "--steps=3", "-5", "=",   "a=b", "a b", "\n",
        "'",       "\"x\"", "{}",    "++",      "train",     "%s", "\\n", "/",   "~",   "a,b",
        "gpt:a=1", "ü ♥",   "$HOME", "`ls`",    "*",         "#",  "@f",  "1",   "[a",  "a]"};
    if (coin()) return odd[number(odd.size())];
    std::string text(1 + number(12), 'x');
    for (char& byte : text) byte = static_cast<char>(1 + number(255));
    return text;
  }

  std::vector<std::string> files(bool needed) {
    std::vector<std::string> files(number(3) + (needed ? 1 : 0));
    for (std::string& file : files) {
      do {
        file = text();
      } while (file.starts_with('['));
    }
    return files;
  }

  double temperature() {
    std::uint64_t bits = random_();
    const double value = static_cast<double>(bits >> 11U) * 0x1.0p-53;
    return coin() ? value * 10 : value;
  }

  TrainOptions train() {
    TrainOptions options;
    for (std::string* one : {&options.config, &options.model, &options.log, &options.trace,
                             &options.out, &options.init}) {
      if (coin()) *one = text();
    }
    options.eval_every = static_cast<std::int64_t>(coin() ? number(1'000'000'000'001) : 0);
    options.data = files(false);
    options.eval_data = files(options.eval_every != 0);
    options.format = static_cast<TokenFormat>(number(3));
    if (coin()) (coin() ? options.steps : options.epochs) = 1 + number(1'000'000);
    if (coin()) options.lr = temperature() + 1e-9;
    if (coin()) options.batch_size = static_cast<std::int64_t>(1 + number(1'000'000'000));
    if (coin()) options.seed = random_();
    if (coin()) options.device = coin() ? "cpu" : "cuda:" + std::to_string(number(1024));
    options.strict = coin();
    options.no_sample = coin();
    if (coin()) options.save = text();
    if (!options.save.empty()) {
      if (coin()) options.save_every = {.steps = static_cast<std::int64_t>(1 + number(1'000'000))};
      if (coin()) options.save_every = {.time = std::chrono::milliseconds(1 + number(1 << 30))};
      if (coin()) options.keep = static_cast<std::int64_t>(number(1'000'000));
      options.on_save_error = coin() ? OnSaveError::stop : OnSaveError::go_on;
    }
    if (options.init.empty() && coin()) options.resume = text();
    return options;
  }

  GenerateOptions generate() {
    GenerateOptions options{.folder = text(), .prompt = coin() ? text() : ""};
    if (coin()) options.count = static_cast<std::int64_t>(1 + number(1'000'000'000));
    if (coin()) options.temperature = temperature();
    if (coin()) options.top_k = static_cast<std::int64_t>(number(1'000'000'001));
    if (coin()) options.seed = random_();
    return options;
  }

 private:
  std::mt19937_64 random_{20240607};
};

TEST(TrainArguments, WordsGiveTheSameOptionsAgain) {
  Source source;
  for (int round = 0; round < 2000; ++round) {
    const TrainOptions options = source.train();
    const Words words = cli::words_of(options);
    ASSERT_EQ(fields(train_options(words)), fields(options)) << testing::PrintToString(words);
    // To mpirun this word begins another program.
    ASSERT_EQ(std::ranges::count(words, ":"), 0);
  }
}

TEST(TrainArguments, WordsOfGenerateToo) {
  Source source;
  for (int round = 0; round < 5000; ++round) {
    const GenerateOptions options = source.generate();
    const Words words = cli::words_of(options);
    ASSERT_EQ(fields(generate_options(words)), fields(options)) << testing::PrintToString(words);
  }
}

TEST(TrainArguments, AFileInBracketsStaysOneFile) {
  const TrainOptions options{.data = {"[a,b]"}};
  EXPECT_EQ(train_options(cli::words_of(options)).data, Words{"./[a,b]"});
}

}  // namespace
}  // namespace zeroshard::test
