// Folders of a test's own, files made byte by byte, and what an error says.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"
#include "zeroshard/base/error.h"

namespace zeroshard {

using TestFolder = test::TemporaryFolder;

inline std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The 8 bytes that a safetensors file begins with.
inline std::string length_prefix(std::uint64_t length) {
  std::string prefix;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    prefix.push_back(static_cast<char>((length >> shift) & 0xFFU));
  }
  return prefix;
}

inline std::string safetensors_file(std::string_view json, std::string_view data) {
  return length_prefix(json.size()) + std::string(json) + std::string(data);
}

// What `work` throws as an Expected says; a failure where it throws nothing or something else.
template <typename Expected, typename Work>
std::string message_thrown(const Work& work) {
  try {
    work();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline ::testing::AssertionResult has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no '" << part << "' in: " << text;
}

// Runs `work` in a process of its own that ends without a destructor, as if killed there.
template <typename Work>
void die_in_the_middle_of(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0) << "the child did not get as far as it should";
}

}  // namespace zeroshard
