#include "cli/conduct.h"

#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/process.h"
#include "cli/signal_set.h"

namespace zeroshard::cli {
namespace {

constexpr timespec kAskAgain{.tv_sec = 0, .tv_nsec = 300'000'000};

// Their own standard error is a pipe; this one may be a terminal.
void tell_terminal_width() {
  winsize size{};
  if (isatty(STDERR_FILENO) != 1 || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_col < 2) return;
  setenv("ZEROSHARD_TERMINAL_COLUMNS", std::to_string(size.ws_col - 1).c_str(), /*replace=*/1);
}

// In a process group of its own, which a terminal's Ctrl-C does not reach; so it must not read from
// the terminal either.
[[noreturn]] void be_the_launcher(const std::vector<std::string>& command, const sigset_t& mask) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  become_or_exit(command);
}

pid_t start(const std::vector<std::string>& command, const sigset_t& mask) {
  const pid_t launcher = fork();
  if (launcher == 0) be_the_launcher(command, mask);
  if (launcher > 0) return launcher;
  throw cannot_fork(command);
}

// A rank that ends well behind a signal says so by its code. One that a signal has ended, or a
// launcher, is a run that failed: mpirun gives 137 for it or a survivor's 1, whichever comes first.
int code_of(int status, int asked) {
  if (status != 0 && asked != 0) return 128 + asked;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  const bool was_asked_itself = code == 128 + SIGINT || code == 128 + SIGTERM;
  return code > 128 && !was_asked_itself ? 1 : code;
}

}  // namespace

int conduct(const std::vector<std::string>& command) {
  tell_terminal_width();
  const sigset_t watched = set_of({SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGHUP});
  sigset_t before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  const pid_t launcher = start(command, before);
  int asked = 0;
  for (;;) {
    const int signal = sigtimedwait(&watched, nullptr, &kAskAgain);
    int status = 0;
    if (waitpid(launcher, &status, WNOHANG) == launcher) return code_of(status, asked);
    if (signal == SIGUSR1) kill(launcher, SIGUSR1);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) {
      if (asked != 0 || signal == SIGHUP) kill(launcher, SIGTERM);
      if (asked == 0) asked = signal;
    }
    // Again and again: a launcher that has not started its ranks yet hands nothing on.
    if (asked == SIGINT) kill(launcher, SIGUSR2);
    if (asked == SIGTERM) kill(launcher, SIGALRM);
  }
}

}  // namespace zeroshard::cli
