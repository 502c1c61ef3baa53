// Sets an environment variable for the length of a test, or takes it away (null).
#pragma once

#include <optional>
#include <string>

#include <stdlib.h>

#include "zeroshard/base/env.h"

namespace zeroshard::test {

class EnvScope {
 public:
  EnvScope(EnvVar var, const char* value)
      : name_(all_env_vars()[static_cast<std::size_t>(var)].name), outer_(env_text(var)) {
    value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_);
  }
  ~EnvScope() {
    if (outer_) {
      ::setenv(name_, outer_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  EnvScope(const EnvScope&) = delete;
  EnvScope& operator=(const EnvScope&) = delete;

 private:
  const char* name_;
  std::optional<std::string> outer_;
};

}  // namespace zeroshard::test
