// A folder that lives as long as a test, and what is in its files.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "zeroshard/base/error.h"

namespace zeroshard::testing {

// As text, which is what the monitors take.
class TemporaryFolder {
 public:
  std::string path() const { return folder_.path().string(); }
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }

 private:
  test::TemporaryFolder folder_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

// What the StorageError says that `action` ends in, or "" where it ends well.
template <typename Action>
std::string storage_error_of(Action action) {
  try {
    action();
  } catch (const StorageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace zeroshard::testing
