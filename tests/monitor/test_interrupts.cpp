// Signals, raised in child processes so that a deadly one ends only those.
#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/monitor/interrupts.h"

namespace zeroshard {
namespace {

using namespace std::chrono_literals;

// How a child ended that ran `body` and exited with what it returned.
struct End {
  int exit_code = -1;
  int signal = 0;
};

template <typename Body>
End in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, SIG_DFL);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  End end;
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

// What a training loop does with a request.
int finish(Interrupts& interrupts) {
  const int signal = interrupts.requested();
  return interrupts_training(signal) ? exit_code_of(signal) : 0;
}

TEST(Interrupts, NothingIsAskedAtFirst) {
  EXPECT_EQ(in_child([] {
              Interrupts interrupts;
              return interrupts.requested();
            }).exit_code,
            0);
}

TEST(Interrupts, TheFirstSignalIsNotedAndTheLoopEndsTheRun) {
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    const End end = in_child([signal = signal] {
      Interrupts interrupts;
      std::raise(signal);
      if (interrupts.requested() != signal) return 1;  // and it stays asked for
      return finish(interrupts);
    });
    EXPECT_EQ(end.exit_code, code);
  }
}

TEST(Interrupts, ASecondInterruptEndsTheProcessAtOnce) {
  const End end = in_child([] {
    Interrupts interrupts(0ms);
    std::raise(SIGINT);
    std::raise(SIGINT);
    return 0;
  });
  EXPECT_EQ(end.signal, SIGINT);
}

TEST(Interrupts, AnInterruptPassedOnByALauncherIsTheSameOne) {
  const End end = in_child([] {
    Interrupts interrupts(1h);
    for (int i = 0; i < 3; ++i) std::raise(SIGINT);
    return finish(interrupts);
  });
  EXPECT_EQ(end.exit_code, 130);
  const End later = in_child([] {
    Interrupts interrupts(20ms);
    std::raise(SIGINT);
    std::this_thread::sleep_for(40ms);
    std::raise(SIGINT);
    return 0;
  });
  EXPECT_EQ(later.signal, SIGINT);
}

TEST(Interrupts, TerminationMayBeRepeated) {
  const End end = in_child([] {
    Interrupts interrupts(0ms);
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    std::raise(SIGINT);  // the first interrupt, though the second signal
    return finish(interrupts);
  });
  EXPECT_EQ(end.exit_code, 143);
}

TEST(Interrupts, ACheckpointIsAskedForOnceAndTrainingGoesOn) {
  const End end = in_child([] {
    Interrupts interrupts;
    std::raise(SIGUSR1);
    std::raise(SIGUSR1);
    if (interrupts.requested() != SIGUSR1) return 1;
    if (interrupts.requested() != 0) return 2;
    std::raise(SIGUSR1);
    if (interrupts.requested() != SIGUSR1) return 3;
    return finish(interrupts);
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(Interrupts, StoppingComesBeforeACheckpoint) {
  const End end = in_child([] {
    Interrupts interrupts;
    std::raise(SIGUSR1);
    std::raise(SIGTERM);
    return finish(interrupts);
  });
  EXPECT_EQ(end.exit_code, 143);
}

TEST(Interrupts, FromAnotherThread) {
  const End end = in_child([] {
    Interrupts interrupts;
    std::thread([] { std::raise(SIGINT); }).join();
    return finish(interrupts);
  });
  EXPECT_EQ(end.exit_code, 130);
}

volatile std::sig_atomic_t own_handler_calls = 0;

TEST(Interrupts, FormerHandlersComeBack) {
  const End end = in_child([] {
    std::signal(SIGUSR1, [](int) { own_handler_calls = own_handler_calls + 1; });
    {
      Interrupts interrupts;
      std::raise(SIGUSR1);
      if (own_handler_calls != 0) return 1;
    }
    std::raise(SIGUSR1);
    if (own_handler_calls != 1) return 2;
    Interrupts again;  // and the former one's requests are forgotten
    if (again.requested() != 0) return 3;
    return 42;
  });
  EXPECT_EQ(end.exit_code, 42);
  const End after = in_child([] {
    { Interrupts interrupts; }
    std::raise(SIGTERM);
    return 0;
  });
  EXPECT_EQ(after.signal, SIGTERM);
}

TEST(Interrupts, WhatWasIgnoredStaysIgnored) {
  const End end = in_child([] {
    std::signal(SIGINT, SIG_IGN);
    Interrupts interrupts(0ms);
    for (int i = 0; i < 3; ++i) std::raise(SIGINT);
    return interrupts.requested();
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(Interrupts, ThereIsOneAtATime) {
  const Interrupts first;
  EXPECT_THROW(Interrupts(), StateError);
}

TEST(Interrupts, SayWhatWasAsked) {
  EXPECT_EQ(interrupt_text(SIGINT), "SIGINT asked to stop");
  EXPECT_EQ(interrupt_text(SIGTERM), "SIGTERM asked to stop");
  EXPECT_EQ(interrupt_text(SIGUSR1), "USR1 asked for a checkpoint");
  EXPECT_FALSE(interrupts_training(SIGUSR1));
  EXPECT_FALSE(interrupts_training(0));
}

}  // namespace
}  // namespace zeroshard
