// The errors a user may see. Every message reads `[area] what: value; remedy`.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace zeroshard {

// What went wrong, in the three parts every message has. `value` and `remedy` may be empty.
//
//   throw ConfigError({.what = "zero_optimization.stage is out of range",
//                      .value = "7",
//                      .remedy = "choose 0, 1, 2 or 3"});
struct Fault {
  std::string what;
  std::string value = {};
  std::string remedy = {};
};

// `[area] what: value; remedy`, leaving out the parts that are empty.
std::string format_fault(std::string_view area, const Fault& fault);

// What an exception says, whatever its type, without the stack trace that torch's carry.
std::string message_of(const std::exception_ptr& error);

// The base of all of ours. `exit_code()` is what a command line should end with.
class Error : public std::runtime_error {
 public:
  int exit_code() const noexcept { return exit_code_; }
  const Fault& fault() const noexcept { return fault_; }

 protected:
  Error(std::string_view area, Fault fault, int exit_code);

 private:
  Fault fault_;
  int exit_code_;
};

// A wrong option, key, argument or file of the user's: exit code 2.
class ConfigError : public Error {
 public:
  explicit ConfigError(Fault fault) : Error("config", std::move(fault), 2) {}
};

// A peer is gone, stuck or out of step: exit code 1.
class CommError : public Error {
 public:
  explicit CommError(Fault fault) : Error("comm", std::move(fault), 1) {}
};

// The echo, on this rank, of an error that another rank reports itself: exit code 1. A program need
// not print it, lest one message becomes as many as there are ranks.
class PeerError : public CommError {
 public:
  using CommError::CommError;
};

// Memory or disk: missing, full, damaged: exit code 1.
class StorageError : public Error {
 public:
  explicit StorageError(Fault fault) : Error("storage", std::move(fault), 1) {}
};

// A call that the current state does not allow, such as reading a released parameter: exit code 1.
class StateError : public Error {
 public:
  explicit StateError(Fault fault) : Error("state", std::move(fault), 1) {}
};

// A broken promise inside ZeroShard itself, raised by ZS_CHECK (base/check.h): exit code 1.
class InvariantError : public Error {
 public:
  explicit InvariantError(Fault fault) : Error("internal", std::move(fault), 1) {}
};

}  // namespace zeroshard
