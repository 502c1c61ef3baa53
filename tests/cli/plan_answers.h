// What `zeroshard plan` answers, as a program.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/support/run_program.h"

namespace zeroshard::test {

inline Finished plan(const std::string& arguments) {
  return run_program(ZEROSHARD_BINARY, "plan " + arguments);
}

inline rapidjson::Document plan_json(const std::string& arguments) {
  const Finished finished = plan(arguments + " --json");
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  rapidjson::Document document;
  document.Parse(finished.out.c_str());
  EXPECT_FALSE(document.HasParseError()) << finished.out;
  return document;
}

// By its name, such as "stage 2 + offload_optimizer".
inline const rapidjson::Value& variant(const rapidjson::Document& document, std::string_view name) {
  for (const auto& each : document["variants"].GetArray()) {
    if (each["name"].GetString() == name) return each;
  }
  ADD_FAILURE() << "no variant " << name;
  return document["variants"][0];
}

inline bool says(const Finished& finished, const std::string& words) {
  return finished.out.find(words) != std::string::npos;
}

inline std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace zeroshard::test
