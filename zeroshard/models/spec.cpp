#include "zeroshard/models/spec.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/nearest.h"
#include "zeroshard/base/utf8.h"
#include "zeroshard/models/fields.h"
#include "zeroshard/models/validate.h"

namespace zeroshard {
namespace {

constexpr std::size_t kMaxJsonBytes = std::size_t{1} << 20U;
constexpr std::string_view kForms =
    "write gpt:layers=4,hidden=128,..., dense:inputs=1,outputs=1 or the path of a config.json";

struct Setting {
  std::string key;
  std::string value;
};

template <typename Options>
std::vector<std::string_view> known_keys(const Options& options) {
  std::vector<std::string_view> keys;
  for (const auto& field : fields_of(options)) {
    keys.push_back(field.name);
    if (!field.alias.empty()) keys.push_back(field.alias);
  }
  return keys;
}

template <typename Options>
const Field<Options>& find_field(const Options& options, const std::string& key,
                                 const std::string& source) {
  for (const auto& field : fields_of(options)) {
    if (field.name == key || (!field.alias.empty() && field.alias == key)) return field;
  }
  const std::vector<std::string_view> known = known_keys(options);
  const auto meant = nearest(key, known);
  throw ConfigError({.what = source + " has an unknown key",
                     .value = shortened(key, 60),
                     .remedy = meant ? fmt::format("did you mean {}?", *meant)
                                     : fmt::format("known are {}", fmt::join(known, ", "))});
}

template <typename Options>
ModelOptions apply(Options options, const std::vector<Setting>& settings,
                   const std::string& source) {
  std::set<std::string_view> seen;
  for (const Setting& setting : settings) {
    const auto& field = find_field(options, setting.key, source);
    if (!seen.insert(field.name).second) {
      throw ConfigError({.what = fmt::format("{} has {} twice", source, field.name),
                         .value = "",
                         .remedy = "keep one of the two"});
    }
    if (!field.read(options, setting.value)) {
      throw ConfigError({.what = fmt::format("{} has a wrong value of {}", source, setting.key),
                         .value = shortened(setting.value, 60),
                         .remedy = fmt::format("give {}", field.expects)});
    }
  }
  validate(options);
  return options;
}

ModelOptions build(std::string_view kind, const std::vector<Setting>& settings,
                   const std::string& source) {
  if (kind == "gpt") return apply(GptOptions{}, settings, source);
  if (kind == "dense") return apply(DenseOptions{}, settings, source);
  const auto meant = nearest(kind, {"gpt", "dense"});
  throw ConfigError({.what = source + " is of an unknown kind",
                     .value = shortened(kind, 60),
                     .remedy = meant ? fmt::format("did you mean {}?", *meant)
                                     : std::string("known are gpt and dense")});
}

// "layers=4,hidden=128"; blanks around words do not matter.
std::vector<Setting> split_settings(std::string_view text) {
  const auto trimmed = [](std::string_view word) {
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    return std::string(word);
  };
  std::vector<Setting> settings;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) {
      throw ConfigError({.what = "the model has a key without a value",
                         .value = shortened(one, 60),
                         .remedy = "write key=value, with commas between them"});
    }
    settings.push_back({trimmed(one.substr(0, equals)), trimmed(one.substr(equals + 1))});
  }
  return settings;
}

[[noreturn]] void fail_json(const std::string& source, std::string what, std::string remedy) {
  throw ConfigError({.what = source + " cannot be read as a model's JSON",
                     .value = std::move(what),
                     .remedy = std::move(remedy)});
}

// A JSON value as the command line would spell it. Numbers arrive as text (see the flags below).
std::string spelling(const rapidjson::Value& value, const Setting& of, const std::string& source) {
  if (value.IsString()) return {value.GetString(), value.GetStringLength()};
  if (value.IsBool()) return value.GetBool() ? "true" : "false";
  if (value.IsArray()) {
    std::vector<std::string> items;
    for (const auto& item : value.GetArray()) {
      if (!item.IsString()) fail_json(source, of.key, "its items must be numbers");
      items.emplace_back(item.GetString(), item.GetStringLength());
    }
    return fmt::format("{}", fmt::join(items, "x"));
  }
  fail_json(source, of.key, "give a number, a word, true or false");
}

// Mostly HuggingFace's, which plans know by their shapes.
[[noreturn]] void refuse_foreign(std::string_view kind, const std::string& source) {
  throw ConfigError({.what = source + " is of a model_type that is not built in",
                     .value = shortened(kind, 60),
                     .remedy = "built in are gpt and dense; models of HuggingFace's are trained by "
                               "a script of theirs, with `zeroshard run`"});
}

// One byte more than it may have: who parses it sees that it is too large.
std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxJsonBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad() || !file.is_open()) {
    throw ConfigError({.what = "the model's file cannot be read",
                       .value = path.string(),
                       .remedy = "check the path and its permissions"});
  }
  return text;
}

// The kind of "gpt:layers=4", or nothing where the text does not start like that.
std::string_view kind_of(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(':'));
  for (const char letter : word) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '_') return {};
  }
  return word;
}

}  // namespace

ModelOptions read_model(const std::string& text) {
  namespace fs = std::filesystem;
  const std::string_view kind = kind_of(text);
  const bool has_settings = !kind.empty() && kind.size() < text.size();
  if (has_settings || kind == "gpt" || kind == "dense") {
    const auto settings = std::string_view(text).substr(std::min(text.size(), kind.size() + 1));
    return build(kind, split_settings(settings), "the model");
  }
  std::error_code ignored;
  fs::path path(text);
  const bool is_folder = fs::is_directory(path, ignored);
  if (is_folder) path /= "config.json";
  if (is_folder && !fs::exists(path, ignored)) {
    throw ConfigError({.what = "there is no config.json in the model's folder",
                       .value = shortened(text, 120),
                       .remedy = std::string(kForms)});
  }
  if (text.empty() || !fs::exists(path, ignored)) {
    throw ConfigError({.what = "there is no such model",
                       .value = text.empty() ? "an empty text" : shortened(text, 120),
                       .remedy = std::string(kForms)});
  }
  return model_from_json(read_file(path), path.string());
}

ModelOptions model_from_json(std::string_view json, const std::string& source) {
  if (json.size() > kMaxJsonBytes) fail_json(source, "more than 1 MiB", "is it a config.json?");
  rapidjson::Document document;
  // Iterative: a hostile file cannot exhaust the stack. Numbers as text: one reader for both forms.
  constexpr unsigned kFlags = rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseIterativeFlag |
                              rapidjson::kParseValidateEncodingFlag;
  document.Parse<kFlags>(json.data(), json.size());
  if (document.HasParseError()) {
    fail_json(source, rapidjson::GetParseError_En(document.GetParseError()),
              fmt::format("mend it at byte {}", document.GetErrorOffset()));
  }
  if (!document.IsObject()) fail_json(source, "not an object", "write { \"model_type\": ... }");
  std::string kind;
  std::vector<Setting> settings;
  for (const auto& member : document.GetObject()) {
    Setting setting{{member.name.GetString(), member.name.GetStringLength()}, {}};
    setting.value = spelling(member.value, setting, source);
    if (setting.key == "model_type") {
      if (!kind.empty()) fail_json(source, "model_type twice", "keep one of the two");
      kind = setting.value;
    } else {
      settings.push_back(std::move(setting));
    }
  }
  if (kind.empty()) fail_json(source, "no model_type", "add \"model_type\": \"gpt\" or \"dense\"");
  if (kind != "gpt" && kind != "dense") refuse_foreign(kind, source);
  return build(kind, settings, source);
}

std::string to_json(const ModelOptions& options) {
  std::string json = fmt::format("{{\n  \"model_type\": \"{}\"",
                                 std::holds_alternative<GptOptions>(options) ? "gpt" : "dense");
  std::visit(
      [&](const auto& one) {
        for (const auto& field : fields_of(one)) {
          json += fmt::format(",\n  \"{}\": {}", field.name, field.to_json(one));
        }
      },
      options);
  return json + "\n}\n";
}

}  // namespace zeroshard
