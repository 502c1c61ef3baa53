#include "cli/find_python.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "cli/capture.h"
#include "cli/process.h"
#include "cli/run_ranks.h"
#include "zeroshard/base/env.h"

namespace zeroshard::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kRunRanks = "launcher/run_ranks.py";

fs::path own_folder() { return fs::path(own_program()).parent_path(); }

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Where the package may lie as seen from this program: beside it in a build folder, in lib/ of the
// environment whose bin/ it is in.
std::vector<fs::path> packages_around() {
  std::vector<fs::path> folders{own_folder() / "python" / "zeroshard"};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(own_folder().parent_path() / "lib", ignored)) {
    if (!entry.path().filename().string().starts_with("python")) continue;
    folders.push_back(entry.path() / "site-packages" / "zeroshard");
  }
  return folders;
}

// Finding is not importing: torch is not loaded for the question.
std::string package_of(const std::string& python) {
  const std::string question =
      "import importlib.util as u; s = u.find_spec('zeroshard');"
      "print(s.submodule_search_locations[0] if s else '')";
  return first_line(captured_output({python, "-c", question}, milliseconds(20'000)));
}

}  // namespace

std::string find_python() {
  const std::string remedy = "name a Python with ZEROSHARD_PYTHON, or put python3 on the PATH";
  if (const auto named = env_text(EnvVar::kPython)) return find_program(*named, remedy);
  const fs::path beside = own_folder() / "python3";
  if (is_file(beside) && access(beside.c_str(), X_OK) == 0) return beside;
  return find_program("python3", remedy);
}

std::string find_package(const std::string& python) {
  for (const fs::path& package : packages_around()) {
    if (is_file(package / kRunRanks)) return package;
  }
  const std::string package = package_of(python);
  if (!package.empty() && is_file(fs::path(package) / kRunRanks)) return package;
  throw RunError({.what = "this Python has no zeroshard package",
                  .value = python,
                  .remedy = "install it there, or name another Python with ZEROSHARD_PYTHON"});
}

std::string find_run_ranks(const std::string& python) {
  return fs::path(find_package(python)) / kRunRanks;
}

}  // namespace zeroshard::cli
