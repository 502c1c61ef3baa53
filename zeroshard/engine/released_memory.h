// Where a released parameter points: addresses that nobody may touch, one range for each unit, so
// that a stray read on the CPU ends the program with the unit's name instead of with garbage.
#pragma once

#include <cstdint>
#include <string>

namespace zeroshard {

// Address space without memory. A read or write of it prints `[state] ...` with the name and ends
// the process with exit code 1. Faults anywhere else go to whoever handled them before.
class ReleasedRange {
 public:
  ReleasedRange(const std::string& unit, std::int64_t bytes);
  ~ReleasedRange();
  ReleasedRange(const ReleasedRange&) = delete;
  ReleasedRange& operator=(const ReleasedRange&) = delete;

  void* data() const { return data_; }
  void rename(const std::string& unit);

 private:
  void* data_;
  std::int64_t bytes_;
  int place_;  // in the fault handler's table
};

}  // namespace zeroshard
