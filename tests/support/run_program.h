// Runs a command through the shell and keeps what it printed.
#pragma once

#include <string>

namespace zeroshard::test {

struct Finished {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// `arguments` is shell text: quote what needs it.
Finished run_program(const std::string& program, const std::string& arguments);

// A file that lives as long as this object, below the system's folder for such.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& contents);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace zeroshard::test
