// `zeroshard completion bash|zsh|fish`: a script made from the app itself, so it is never behind.
#include <functional>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/output.h"
#include "cli/usage.h"
#include "zeroshard/base/error.h"

namespace zeroshard::cli {
namespace {

// Every app of the tree with the words that lead to it: "", "config", "config check".
void visit(const CLI::App& app, const std::string& path,
           const std::function<void(const std::string&, const CLI::App&)>& see) {
  see(path, app);
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_group().empty()) continue;  // hidden
    visit(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name(), see);
  }
}

// bash and zsh (through bashcompinit) share one function: find the verbs typed so far, offer what
// that verb takes, and files where it takes no verbs.
std::string bash_script(const CLI::App& app) {
  std::string cases;
  visit(app, "", [&](const std::string& path, const CLI::App& verb) {
    cases += fmt::format("    \"{}\") verbs=\"{}\"; options=\"{}\" ;;\n", path,
                         fmt::join(verb_names(verb), " "), fmt::join(option_names(verb), " "));
  });
  return fmt::format(R"(_zeroshard() {{
  local path="" word verbs="" options="" current="${{COMP_WORDS[COMP_CWORD]}}"
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) ;; *) path="${{path:+$path }}$word" ;; esac
  done
  while :; do
    case "$path" in
{}    *) if [[ "$path" == *" "* ]]; then path="${{path% *}}"; else path=""; fi; continue ;;
    esac
    break
  done
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -n "$verbs" ]]; then
    COMPREPLY=($(compgen -W "$verbs" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _zeroshard zeroshard
)",
                     cases);
}

std::string fish_script(const CLI::App& app) {
  std::string script;
  visit(app, "", [&](const std::string& path, const CLI::App& verb) {
    std::string condition = path.empty() ? "__fish_use_subcommand" : "";
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find(' ', begin), path.size());
      condition += fmt::format("{}__fish_seen_subcommand_from {}",
                               condition.empty() ? "" : "; and ", path.substr(begin, end - begin));
      begin = end + 1;
    }
    for (const CLI::App* child : verb.get_subcommands({})) {
      script += fmt::format("complete -c zeroshard -f -n '{}' -a {} -d '{}'\n", condition,
                            child->get_name(), child->get_description());
    }
    for (const std::string& option : option_names(verb)) {
      if (!option.starts_with("--")) continue;
      script += fmt::format("complete -c zeroshard -n '{}' -l {}\n", condition, option.substr(2));
    }
  });
  return script;
}

std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") return fish_script(app);
  if (shell == "bash") return bash_script(app);
  return "autoload -Uz bashcompinit && bashcompinit\n" + bash_script(app);
}

}  // namespace

void add_completion_verb(CommandLine& line) {
  CLI::App* verb = add_verb(line.app, "completion", "Print a shell completion script",
                            "source <(zeroshard completion bash)");
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([&line, shell] {
    line.action = [&line, shell] {
      print(completion_script(line.app, *shell));
      return 0;
    };
  });
}

}  // namespace zeroshard::cli
