// Whether an object goes because an exception takes it away: then nobody should be waited for.
//
//   ~Communicator() { if (!unwinding_) wait_for_the_others(); }
//   ...
//   const Unwinding unwinding_;   // compares with the moment it was made
#pragma once

#include <exception>

namespace zeroshard {

class Unwinding {
 public:
  explicit operator bool() const { return std::uncaught_exceptions() > at_birth_; }

 private:
  int at_birth_ = std::uncaught_exceptions();
};

}  // namespace zeroshard
