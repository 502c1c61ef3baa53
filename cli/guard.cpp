#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/process.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"

namespace zeroshard::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForOthersToSpeak{1500};
constexpr milliseconds kToEndByItself{300};
constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 200'000'000};

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

[[noreturn]] void be_the_rank(const std::vector<std::string>& command, const sigset_t& mask,
                              pid_t guardian) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guardian) _exit(1);  // it died before the line above
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  try {
    become(command);
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(error.exit_code());
  }
}

std::optional<int> status_of(pid_t rank) {
  int status = 0;
  if (waitpid(rank, &status, WNOHANG) != rank) return std::nullopt;
  return status;
}

// Asks, waits a little, and does not ask again.
void end_now(pid_t rank, int signal) {
  kill(rank, signal);
  const auto deadline = std::chrono::steady_clock::now() + kToEndByItself;
  while (std::chrono::steady_clock::now() < deadline) {
    if (status_of(rank)) return;
    std::this_thread::sleep_for(milliseconds(5));
  }
  kill(rank, SIGKILL);
  waitpid(rank, nullptr, 0);
}

int exit_code_of(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  std::fprintf(stderr, "[comm] rank %d was ended by signal %d (%s)\n", current_rank(), signal,
               strsignal(signal));
  std::this_thread::sleep_for(kForOthersToSpeak);
  return 128 + signal;
}

}  // namespace

int guard(const std::vector<std::string>& command) {
  const sigset_t watched = watched_signals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  const pid_t guardian = getpid();
  const pid_t launcher = getppid();
  const pid_t rank = fork();
  if (rank == 0) be_the_rank(command, before, guardian);
  for (;;) {
    const int signal = sigtimedwait(&watched, nullptr, &kLookEvery);
    if (const auto status = status_of(rank)) return exit_code_of(*status);
    if (signal > 0 && signal != SIGCHLD) {
      end_now(rank, signal);
      return 128 + signal;
    }
    if (getppid() != launcher) {
      end_now(rank, SIGTERM);
      return 1;
    }
  }
}

}  // namespace zeroshard::cli
