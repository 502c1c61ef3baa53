#include "cli/process.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <unistd.h>

#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"

namespace zeroshard::cli {
namespace {

bool is_program(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_program(const std::string& name, const std::string& remedy) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
  } else {
    std::istringstream folders(env_text(EnvVar::kPath).value_or("/usr/bin:/bin"));
    for (std::string folder; std::getline(folders, folder, ':');) {
      const std::filesystem::path path = std::filesystem::path(folder) / name;
      if (is_program(path)) return path;
    }
  }
  throw ConfigError({.what = "no such program", .value = name, .remedy = remedy});
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string trainer_path() {
  constexpr const char* kTrainer = "zeroshard-train";
  const std::filesystem::path folder = std::filesystem::path(own_program()).parent_path();
  const std::filesystem::path installed = folder.parent_path() / "libexec" / "zeroshard" / kTrainer;
  const bool only_installed = !is_program(folder / kTrainer) && is_program(installed);
  return only_installed ? installed : folder / kTrainer;
}

void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw ConfigError(
      {.what = "cannot start " + command[0], .value = std::generic_category().message(errno)});
}

void become_or_exit(const std::vector<std::string>& command) {
  try {
    become(command);
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(error.exit_code());
  }
}

StateError cannot_fork(const std::vector<std::string>& command) {
  return StateError({.what = "cannot start " + command[0],
                     .value = std::generic_category().message(errno),
                     .remedy = "see ulimit -u, and the memory that is left"});
}

}  // namespace zeroshard::cli
