#include "cli/usage.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/nearest.h"

namespace zeroshard::cli {
namespace {

const CLI::App& deepest_verb(const CLI::App& app) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  return *verb;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The first option on the command line that the verb does not have.
std::string unknown_option(const std::vector<std::string>& known, int argc,
                           const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word(argv[i]);
    if (word == "--") break;
    const bool is_option =
        word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
    if (!is_option) continue;
    std::string name = word.substr(0, word.find('='));
    if (!contains(known, name)) return name;
  }
  return {};
}

bool takes_value(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_max() > 0;
}

// The first word where a verb was expected and none of that name exists.
std::string unknown_verb(const CLI::App& verb, int argc, const char* const* argv) {
  const CLI::App* root = &verb;
  int verbs_before = 0;
  for (; root->get_parent() != nullptr; root = root->get_parent()) ++verbs_before;
  for (int i = 1; i < argc; ++i) {
    std::string word(argv[i]);
    if (word.starts_with("-")) {
      if (takes_value(*root, word)) ++i;
    } else if (verbs_before-- == 0) {
      return word;
    }
  }
  return {};
}

Fault with_nearest(Fault fault, const std::vector<std::string>& candidates, const CLI::App& verb) {
  const std::string see = "see " + full_name(verb) + " --help";
  const auto near = nearest(fault.value, candidates);
  fault.remedy = near ? "did you mean " + *near + "? Otherwise " + see : see;
  return fault;
}

}  // namespace

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  if (app.get_parent() != nullptr) {
    for (std::string& name : option_names(*app.get_parent())) {
      if (!contains(names, name)) names.push_back(std::move(name));
    }
  }
  return names;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!verb->get_group().empty()) names.push_back(verb->get_name());
  }
  return names;
}

UsageError no_such_verb(const CLI::App& parent, const std::string& word) {
  return UsageError(
      with_nearest({.what = "unknown verb", .value = word}, verb_names(parent), parent));
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error, int argc,
                          const char* const* argv) {
  const CLI::App& verb = deepest_verb(app);
  const auto verbs = verb_names(verb);
  const auto options = option_names(verb);
  const std::string option = unknown_option(options, argc, argv);
  if (!verbs.empty()) {
    const std::string word = unknown_verb(verb, argc, argv);
    if (!word.empty()) return no_such_verb(verb, word).what();
  }
  Fault fault{.what = error.what()};
  std::vector<std::string> candidates;
  if (!option.empty()) {
    fault = {.what = "unknown option", .value = option};
    candidates = options;
  } else if (!verbs.empty()) {
    fault = {.what = "no verb given", .value = fmt::format("one of {}", fmt::join(verbs, ", "))};
  }
  return UsageError(with_nearest(fault, candidates, verb)).what();
}

}  // namespace zeroshard::cli
