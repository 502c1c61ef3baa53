#include "cli/app.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>

#include "cli/output.h"
#include "cli/run.h"
#include "cli/usage.h"
#include "cli/version.h"
#include "zeroshard/base/log.h"

namespace zeroshard::cli {

CLI::App* add_verb(CLI::App& parent, const char* name, const char* summary, const char* example) {
  CLI::App* verb = parent.add_subcommand(name, summary);
  verb->footer(std::string("Example:\n  ") + example);
  verb->fallthrough();  // so that --log-level may stand behind the verb
  return verb;
}

std::unique_ptr<CommandLine> make_command_line() {
  auto line = std::make_unique<CommandLine>();
  CLI::App& app = line->app;
  app.name("zeroshard");
  app.footer(
      "Example:\n  zeroshard plan --params 7.5e9 --world-size 64 --device cuda\n"
      "zeroshard help VERB, or VERB --help, says more. Exit codes: 0 done, 1 failed, 2 usage or "
      "config.");
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", version_text(), "Print versions and exit");
  app.add_option("--log-level", line->log_level,
                 "debug, info, warning, error or off; \":all\" behind it lets every rank speak")
      ->type_name("LEVEL");
  add_train_verb(*line);
  add_generate_verb(*line);
  add_config_verb(*line);
  add_plan_verb(*line);
  add_checkpoint_verb(*line);
  add_report_verb(*line);
  add_run_verb(*line);
  add_env_verb(*line);
  add_guard_verb(*line);
  add_completion_verb(*line);
  add_help_verb(*line);
  return line;
}

// What a shell makes of a variable that is not set: who wrote the option meant something. A text
// may be empty.
void refuse_empty_values(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    const auto& values = option->results();
    if (!option->nonpositional() || option->get_type_name() == "TEXT") continue;
    if (std::ranges::find(values, "") == values.end()) continue;
    throw CLI::ValidationError(option->get_name(), "expected a value, not \"\"");
  }
  for (const CLI::App* each : verb.get_subcommands()) refuse_empty_values(*each);
}

int run(int argc, const char* const* argv) {
  const auto line = make_command_line();
  try {
    line->app.parse(argc, argv);
    refuse_empty_values(line->app);
  } catch (const CLI::Success& asked) {  // --help or --version
    std::ostringstream text;
    line->app.exit(asked, text, text);
    print(text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s\n", usage_message(line->app, error, argc, argv).c_str());
    return kUsageExitCode;
  }
  set_log_settings(line->log_level.empty() ? log_settings_from_env()
                                           : parse_log_settings(line->log_level, "--log-level"));
  return line->action();
}

}  // namespace zeroshard::cli
