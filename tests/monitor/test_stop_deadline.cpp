// What does not end in time after a signal is abandoned. In child processes: signals are theirs.
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zeroshard/monitor/stop_deadline.h"

namespace zeroshard {
namespace {

using namespace std::chrono_literals;

// The exit code of a child that ran `body`, which is given its deadline of 200 ms.
template <typename Body>
int code_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
    Interrupts interrupts;
    StopDeadline deadline(interrupts, 200ms, [](int signal) { _exit(exit_code_of(signal)); });
    _exit(body(deadline));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(StopDeadline, WhatDoesNotEndIsAbandonedWithTheSignalsCode) {
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGALRM, 143)}) {
    EXPECT_EQ(code_of_child([signal = signal](StopDeadline&) {
                std::raise(signal);
                std::this_thread::sleep_for(10s);
                return 7;
              }),
              code);
  }
}

TEST(StopDeadline, NothingIsAbandonedBeforeItsTimeOrWithoutASignal) {
  EXPECT_EQ(code_of_child([](StopDeadline&) {
              std::this_thread::sleep_for(500ms);
              std::raise(SIGTERM);
              std::this_thread::sleep_for(20ms);
              return 7;
            }),
            7);
}

TEST(StopDeadline, WritingMayTakeLongAndThePatienceIsWholeBehindIt) {
  EXPECT_EQ(code_of_child([](StopDeadline& deadline) {
              std::raise(SIGTERM);
              {
                const StopDeadline::Pause pause(deadline);
                std::this_thread::sleep_for(600ms);
              }
              std::this_thread::sleep_for(20ms);
              return 7;
            }),
            7);
  EXPECT_EQ(code_of_child([](StopDeadline& deadline) {
              std::raise(SIGTERM);
              { const StopDeadline::Pause pause(deadline); }
              std::this_thread::sleep_for(10s);
              return 7;
            }),
            143);
}

TEST(StopDeadline, OnePauseInsideAnotherEndsNothing) {
  EXPECT_EQ(code_of_child([](StopDeadline& deadline) {
              std::raise(SIGTERM);
              const StopDeadline::Pause outer(deadline);
              { const StopDeadline::Pause inner(deadline); }
              std::this_thread::sleep_for(600ms);
              return 7;
            }),
            7);
}

TEST(StopDeadline, EndsAtOnceWhenItIsNotNeededAnyMore) {
  const auto start = std::chrono::steady_clock::now();
  {
    Interrupts interrupts;
    const StopDeadline deadline(interrupts, 1h, [](int) {});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

}  // namespace
}  // namespace zeroshard
