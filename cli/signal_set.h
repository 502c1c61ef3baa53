// A set of signals, for the calls that block and await them.
#pragma once

#include <csignal>
#include <initializer_list>

namespace zeroshard::cli {

inline sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace zeroshard::cli
