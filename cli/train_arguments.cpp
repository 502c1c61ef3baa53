#include "cli/train_arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/duration.h"
#include "zeroshard/base/error.h"
#include "zeroshard/trainer/token_file.h"

namespace zeroshard::cli {
namespace {

// Far beyond any run, and sums and products of them still fit into 64 bits.
constexpr std::uint64_t kMostSteps = 1'000'000'000'000;
constexpr std::uint64_t kMostEpochs = 1'000'000;
constexpr std::uint64_t kMostTokens = 1'000'000'000;
constexpr std::uint64_t kMostSamples = 1'000'000'000;
constexpr std::uint64_t kMostSeed = std::numeric_limits<std::uint64_t>::max();

constexpr std::array kFormats{TokenFormat::text, TokenFormat::u16, TokenFormat::u32};

// All of the text, or nothing.
template <typename Number>
bool read_number(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

// Digits, or as people write large numbers: 1e3, 2.5K.
std::optional<std::uint64_t> read_whole(const std::string& text) {
  std::uint64_t number = 0;
  if (read_number(text, number)) return number;
  if (text.find_first_of(" \t") != std::string::npos) return std::nullopt;
  try {
    return static_cast<std::uint64_t>(parse_count(text));
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

CLI::Validator temperature() {
  const auto check = [](std::string& text) -> std::string {
    double number = 0;
    if (read_number(text, number) && std::isfinite(number) && number >= 0) return {};
    return fmt::format("expected a number of 0 or more, not \"{}\"", text);
  };
  return {check, "", "temperature"};
}

CLI::Validator learning_rate() {
  const auto check = [](std::string& text) -> std::string {
    double number = 0;
    if (read_number(text, number) && std::isfinite(number) && number > 0) return {};
    return fmt::format("expected a number above 0, such as 3e-4, not \"{}\"", text);
  };
  return {check, "", "learning rate"};
}

CLI::Validator device() {
  const auto check = [](std::string& text) -> std::string {
    constexpr std::string_view kNumbered = "cuda:";
    std::uint16_t index = 0;
    const bool numbered = text.starts_with(kNumbered) &&
                          read_number(text.substr(kNumbered.size()), index) && index < 1024;
    if (text == "cpu" || text == "cuda" || numbered) return {};
    return fmt::format("expected cpu, cuda or cuda:N, not \"{}\"", text);
  };
  return {check, "", "device"};
}

CLI::Validator data_format() {
  const auto check = [](std::string& text) -> std::string {
    const auto has_name = [&](TokenFormat format) { return name_of(format) == text; };
    if (std::ranges::any_of(kFormats, has_name)) return {};
    return fmt::format("expected text, u16 or u32, not \"{}\"", text);
  };
  return {check, "", "format"};
}

// "500", "1e3" or "10min", "2h". A letter that is a unit of time is one: "10m" is no ten million.
std::optional<SaveEvery> read_save_every(const std::string& text) {
  const bool has_unit = !text.empty() && (text.back() < '0' || text.back() > '9');
  if (has_unit) {
    try {
      const auto time = parse_duration(text);
      return time.count() > 0 ? std::optional(SaveEvery{.time = time}) : std::nullopt;
    } catch (const ConfigError&) {
    }
  }
  const auto steps = read_whole(text);
  if (!steps || *steps < 1 || *steps > kMostSteps) return std::nullopt;
  return SaveEvery{.steps = static_cast<std::int64_t>(*steps)};
}

CLI::Validator save_every() {
  const auto check = [](std::string& text) -> std::string {
    if (read_save_every(text)) return {};
    return fmt::format("expected a number of steps, or a time such as 10min, not \"{}\"", text);
  };
  return {check, "", "save every"};
}

std::string text_of(const SaveEvery& every) {
  return every.steps > 0 ? std::to_string(every.steps) : fmt::format("{}ms", every.time.count());
}

CLI::Option* add_text(CLI::App& verb, const char* name, std::string& value, const char* help) {
  return verb.add_option(name, value, help);
}

// With a unit: a bare number may be meant in bytes, or in gigabytes.
void add_memory(CLI::App& verb, const char* name, std::optional<std::int64_t>& bytes,
                const char* help) {
  verb.add_option_function<std::string>(
          name,
          [&bytes, name](const std::string& text) {
            bytes = parse_bytes(text, name);
            const auto quantity = split_quantity(text);
            if (*bytes > 0 && !quantity->unit.empty()) return;
            throw ConfigError(
                {.what = std::string(name) + (*bytes > 0 ? " has no unit" : " is nothing"),
                 .value = text,
                 .remedy = "give a size such as 24GiB"});
          },
          help)
      ->type_name("SIZE");
}

void add_data_options(CLI::App& verb, TrainOptions& options) {
  verb.add_option("--data", options.data, "Files to learn from, one behind the other")
      ->take_all()
      ->type_name("FILE");
  verb.add_option_function<std::string>(
          "--data-format",
          [&options](const std::string& word) {
            options.format = *std::ranges::find(
                kFormats, word, [](TokenFormat format) { return std::string(name_of(format)); });
          },
          "text: each byte is a token (default); u16, u32: little-endian token numbers")
      ->type_name("text|u16|u32")
      ->check(data_format());
  CLI::Option* eval_data =
      verb.add_option("--eval-data", options.eval_data, "Files for the validation loss")
          ->take_all()
          ->type_name("FILE");
  verb.add_option("--eval-every", options.eval_every,
                  "Steps between two validations (default: one at the end)")
      ->type_name("N")
      ->transform(whole_number(0, kMostSteps))
      ->needs(eval_data);
}

void add_length_options(CLI::App& verb, TrainOptions& options) {
  CLI::Option* steps =
      verb.add_option("--steps", options.steps, "Updates in all, those before a resume included")
          ->type_name("N")
          ->transform(whole_number(1, kMostSteps));
  verb.add_option("--epochs", options.epochs,
                  "Or: how often to see all data (default: 1; 30 for a dense model)")
      ->type_name("N")
      ->transform(whole_number(1, kMostEpochs))
      ->excludes(steps);
}

void add_value_options(CLI::App& verb, TrainOptions& options) {
  verb.add_option("--lr", options.lr, "Learning rate, in place of the config's")
      ->type_name("RATE")
      ->check(learning_rate());
  verb.add_option("--batch-size", options.batch_size,
                  "Samples per step of all ranks together, in place of the config's")
      ->type_name("N")
      ->transform(whole_number(1, kMostSamples));
}

void add_checkpoint_options(CLI::App& verb, TrainOptions& options) {
  CLI::Option* save =
      add_text(verb, "--save", options.save, "Save checkpoints into this folder")->type_name("DIR");
  verb.add_option_function<std::string>(
          "--save-every",
          [&options](const std::string& text) { options.save_every = *read_save_every(text); },
          "Steps, or a time such as 10min, between two of them (default 30min)")
      ->type_name("N|TIME")
      ->check(save_every())
      ->needs(save);
  verb.add_option("--keep", options.keep, "Keep the last K, and the best (default 3; 0: all)")
      ->type_name("K")
      ->transform(whole_number(0, kMostSteps))
      ->needs(save);
  verb.add_option_function<std::string>(
          "--on-save-error",
          [&options](const std::string& word) {
            options.on_save_error = word == "stop" ? OnSaveError::stop : OnSaveError::go_on;
          },
          "Where one cannot be written: go-on (default) or stop")
      ->type_name("go-on|stop")
      ->check(CLI::IsMember({"go-on", "stop"}))
      ->needs(save);
  add_text(verb, "--resume", options.resume,
           "Go on from a checkpoint, or the latest in a folder; auto: of --save, if there is one")
      ->type_name("DIR|auto");
}

void add_seed(CLI::App& verb, std::uint64_t& seed, const char* help) {
  verb.add_option("--seed", seed, help)->type_name("N")->transform(whole_number(0, kMostSeed));
}

// `--name=value` is one word, whatever the value begins with, and never the ":" that mpirun takes
// for the beginning of another program. CLI11 reads `--name=` as if nothing were given.
class Words {
 public:
  void add(const std::string& name, const std::string& value) {
    if (!value.empty()) {
      words_.push_back(name + "=" + value);
    } else {
      words_.insert(words_.end(), {name, value});
    }
  }

  template <typename Value>
  void add_value(const std::string& name, const Value& value) {
    if constexpr (std::is_same_v<Value, std::string>) {
      add(name, value);
    } else if constexpr (std::is_same_v<Value, double>) {
      // CLI11 reads a long double and rounds it again: the shortest text may miss the number.
      add(name, fmt::format("{:.17g}", value));
    } else {
      add(name, fmt::format("{}", value));
    }
  }

  template <typename Value>
  void add_unless(const std::string& name, const Value& value, const Value& usual) {
    if (value != usual) add_value(name, value);
  }

  template <typename Value>
  void add_if_set(const std::string& name, const std::optional<Value>& value) {
    if (value) add_value(name, *value);
  }

  void add_bytes(const std::string& name, const std::optional<std::int64_t>& bytes) {
    if (bytes) add(name, fmt::format("{}B", *bytes));
  }

  // To CLI11 a value of several in brackets is a list.
  void add_files(const std::string& name, const std::vector<std::string>& files) {
    for (const std::string& file : files) add(name, file.starts_with('[') ? "./" + file : file);
  }

  void add_word(std::string word) { words_.push_back(std::move(word)); }

  std::vector<std::string> take() { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t greatest) {
  const auto check = [=](std::string& text) -> std::string {
    const auto number = read_whole(text);
    if (!number || *number < least || *number > greatest) {
      return fmt::format("expected a whole number from {} to {}, not \"{}\"", least, greatest,
                         text);
    }
    text = std::to_string(*number);
    return {};
  };
  return {check, "", "whole number"};
}

void add_train_options(CLI::App& verb, TrainOptions& options) {
  verb.option_defaults()->group("What");
  add_text(verb, "--config", options.config, "ds_config.json (default: stage 0, all defaults)")
      ->type_name("FILE");
  verb.add_flag("--strict", options.strict, "Unknown keys of the config are errors");
  add_text(verb, "--model", options.model,
           "gpt:layers=4,... | dense:hidden=8 | config.json, or its folder (default: as --init, "
           "else gpt:)")
      ->type_name("SPEC");
  add_text(verb, "--init", options.init, "Start from the weights in this folder")->type_name("DIR");
  verb.option_defaults()->group("Data");
  add_data_options(verb, options);
  verb.option_defaults()->group("How");
  add_length_options(verb, options);
  add_value_options(verb, options);
  add_seed(verb, options.seed, "For the first weights and the order of the data (default 42)");
  add_text(verb, "--device", options.device, "Default: cuda where there is one")
      ->type_name("cpu|cuda|cuda:N")
      ->check(device());
  add_memory(verb, "--device-memory", options.device_memory,
             "What a rank may take of its device: 24GiB (default: what is free)");
  add_memory(verb, "--host-memory", options.host_memory,
             "What the ranks of a host may take of it (default: what is free)");
  verb.option_defaults()->group("Results");
  add_text(verb, "--out", options.out, "Write the trained weights into this folder")
      ->type_name("DIR");
  add_text(verb, "--log", options.log, "Write one JSON object per step")->type_name("FILE.jsonl");
  add_text(verb, "--trace", options.trace, "Write what ran when, for ui.perfetto.dev")
      ->type_name("FILE");
  add_text(verb, "--report", options.report, "Write a page about the run")->type_name("FILE.html");
  verb.add_flag("--no-sample", options.no_sample, "Show no sample of what was learnt at the end");
  verb.option_defaults()->group("Checkpoints");
  add_checkpoint_options(verb, options);
  verb.get_option("--resume")->excludes("--init");
  verb.option_defaults()->group("Options");
}

void add_generate_options(CLI::App& verb, GenerateOptions& options) {
  add_text(verb, "DIR", options.folder, "What train --out has written")->required()->type_name("");
  add_text(verb, "--prompt", options.prompt, "Text to go on from (default: a line break)")
      ->type_name("TEXT");
  verb.add_option("--count", options.count, "New tokens (default 200)")
      ->type_name("N")
      ->transform(whole_number(1, kMostTokens));
  verb.add_option("--temperature", options.temperature,
                  "0: always the likeliest token; more is bolder (default 0.8)")
      ->type_name("T")
      ->check(temperature());
  verb.add_option("--top-k", options.top_k, "Choose among the K likeliest tokens (default: all)")
      ->type_name("K")
      ->transform(whole_number(0, kMostTokens));
  add_seed(verb, options.seed, "The same seed gives the same text (default 42)");
}

std::vector<std::string> words_of(const TrainOptions& options) {
  const TrainOptions usual;
  Words words;
  words.add_unless("--config", options.config, usual.config);
  if (options.strict) words.add_word("--strict");
  words.add_unless("--model", options.model, usual.model);
  words.add_unless("--init", options.init, usual.init);
  words.add_files("--data", options.data);
  words.add_unless("--data-format", std::string(name_of(options.format)),
                   std::string(name_of(usual.format)));
  words.add_files("--eval-data", options.eval_data);
  words.add_unless("--eval-every", options.eval_every, usual.eval_every);
  words.add_if_set("--steps", options.steps);
  words.add_if_set("--epochs", options.epochs);
  words.add_if_set("--lr", options.lr);
  words.add_if_set("--batch-size", options.batch_size);
  words.add_unless("--seed", options.seed, usual.seed);
  words.add_unless("--device", options.device, usual.device);
  words.add_bytes("--device-memory", options.device_memory);
  words.add_bytes("--host-memory", options.host_memory);
  words.add_unless("--out", options.out, usual.out);
  words.add_unless("--log", options.log, usual.log);
  words.add_unless("--trace", options.trace, usual.trace);
  words.add_unless("--report", options.report, usual.report);
  if (options.no_sample) words.add_word("--no-sample");
  words.add_unless("--save", options.save, usual.save);
  words.add_unless("--save-every", text_of(options.save_every), text_of(usual.save_every));
  words.add_unless("--keep", options.keep, usual.keep);
  if (options.on_save_error == OnSaveError::stop) words.add("--on-save-error", "stop");
  words.add_unless("--resume", options.resume, usual.resume);
  return words.take();
}

std::vector<std::string> words_of(const GenerateOptions& options) {
  const GenerateOptions usual;
  Words words;
  words.add_unless("--prompt", options.prompt, usual.prompt);
  words.add_unless("--count", options.count, usual.count);
  words.add_unless("--temperature", options.temperature, usual.temperature);
  words.add_unless("--top-k", options.top_k, usual.top_k);
  words.add_unless("--seed", options.seed, usual.seed);
  words.add_word("--");  // the folder may begin with a dash
  words.add_word(options.folder);
  return words.take();
}

}  // namespace zeroshard::cli
