// `zeroshard help [VERB...]`: what `--help` behind the verb says.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/output.h"
#include "cli/usage.h"

namespace zeroshard::cli {
namespace {

const CLI::App& verb_named(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> verbs = verb_names(app);
  if (std::ranges::find(verbs, word) == verbs.end()) throw no_such_verb(app, word);
  return *app.get_subcommand(word);
}

int help(const std::vector<std::string>& words) {
  // CLI11 lets the verb that was called speak, so the one that is asked about is of another app.
  const auto line = make_command_line();
  const CLI::App* asked = &line->app;
  for (const std::string& word : words) asked = &verb_named(*asked, word);
  const CLI::App* parent = asked->get_parent();
  print(asked->help(parent == nullptr ? "" : full_name(*parent)));
  return 0;
}

}  // namespace

void add_help_verb(CommandLine& line) {
  CLI::App* verb = add_verb(line.app, "help", "Say what a verb does and which options it has",
                            "zeroshard help train\n  zeroshard help config check");
  const auto words = std::make_shared<std::vector<std::string>>();
  verb->fallthrough(false);  // the words behind it name verbs, and call none
  verb->add_option("VERB", *words, "Of this one (default: of all)")->take_all()->type_name("");
  verb->callback([&line, words] { line.action = [words] { return help(*words); }; });
}

}  // namespace zeroshard::cli
