#include "tests/support/run_program.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

namespace zeroshard::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Finished run_program(const std::string& program, const std::string& arguments) {
  const TemporaryFile out(""), err("");
  const std::string command =
      "'" + program + "' " + arguments + " >" + out.path() + " 2>" + err.path() + " </dev/null";
  const int status = std::system(command.c_str());
  Finished finished;
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  finished.out = read_file(out.path());
  finished.err = read_file(err.path());
  return finished;
}

TemporaryFile::TemporaryFile(const std::string& contents)
    : path_((std::filesystem::temp_directory_path() / "zeroshard_test_XXXXXX").string()) {
  const int descriptor = mkstemp(path_.data());
  if (descriptor < 0) throw std::runtime_error("cannot make a temporary file: " + path_);
  close(descriptor);
  std::ofstream(path_, std::ios::binary) << contents;
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

}  // namespace zeroshard::test
