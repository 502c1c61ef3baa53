#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/process.h"
#include "cli/signal_set.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"

namespace zeroshard::cli {
namespace {

using std::chrono::milliseconds;

// After a signal the others must notice first; after an error they know already.
constexpr milliseconds kForOthersToSpeak{1500};
constexpr milliseconds kForOthersToEnd{500};
constexpr milliseconds kToEndByItself{300};
constexpr int kForLauncherToEnd = 5000;  // ms
constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 200'000'000};

sigset_t ending_signals() { return set_of({SIGTERM, SIGINT, SIGHUP, SIGQUIT}); }

// The last four are none of the guardian's business: mpirun and srun send them to the whole
// process group, and so to the rank as well.
sigset_t watched_signals() {
  return set_of({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE});
}

[[noreturn]] void be_the_rank(const std::vector<std::string>& command, const sigset_t& mask,
                              pid_t guardian) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guardian) _exit(1);  // it died before the line above
  // It will listen to these, but must not die of them while its libraries are loaded.
  if (command.front() == trainer_path()) {
    for (const int signal : {SIGUSR1, SIGUSR2, SIGALRM}) std::signal(signal, SIG_IGN);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  become_or_exit(command);
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

// Open MPI's: all of them end when they hear of a failed rank. Others may have reasons to stay.
bool ends_with_its_ranks(pid_t launcher) {
  static const std::set<std::string> names = {"mpirun",  "mpiexec", "orterun", "orted",
                                              "prterun", "prte",    "prted"};
  std::ifstream file("/proc/" + std::to_string(launcher) + "/comm");
  std::string name;
  return std::getline(file, name) && names.contains(name);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code ignored;
  const std::string threads = "/proc/" + std::to_string(parent) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(threads, ignored)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

// A failed rank ends the job, but a launcher that cannot reach one of the hosts any more waits for
// it until TCP gives up: a quarter of an hour. This process of its own does not wait that long. It
// holds none of the rank's pipes, which the launcher waits for too. No polite signal first: mpirun
// 4.1 crashes on it, and says so at length.
void end_launcher_in_time(pid_t launcher) {
  if (!ends_with_its_ranks(launcher)) return;
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, launcher, 0));
  if (descriptor < 0 || fork() != 0) return;
  setsid();
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
  pollfd end{descriptor, POLLIN, 0};
  if (poll(&end, 1, kForLauncherToEnd) == 0) {
    // Its ssh among them, which waits for a host out of reach even longer.
    const std::vector<pid_t> children = children_of(launcher);
    syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
    for (const pid_t child : children) kill(child, SIGKILL);
  }
  _exit(0);
}

// Holds the news back, unless there is nobody left to hear the others.
void let_others_speak(milliseconds time) {
  const sigset_t ending = ending_signals();
  const timespec limit{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
  sigtimedwait(&ending, nullptr, &limit);
}

// What the rank itself has started: with its end they become the guardian's children.
void end_orphans() {
  for (int round = 0; round < 100; ++round) {
    const std::vector<pid_t> orphans = children_of(getpid());
    if (orphans.empty()) return;
    for (const pid_t orphan : orphans) kill(orphan, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

int exit_code_of(int status, pid_t launcher) {
  if (status == 0) return 0;
  end_orphans();
  end_launcher_in_time(launcher);
  if (WIFEXITED(status)) {
    let_others_speak(kForOthersToEnd);
    return WEXITSTATUS(status);
  }
  const int signal = WTERMSIG(status);
  // A signal to the process group ends the rank too, and is no news to who has sent it.
  const sigset_t ending = ending_signals();
  const timespec now{};
  if (sigtimedwait(&ending, nullptr, &now) > 0) return 128 + signal;
  std::fprintf(stderr, "[comm] rank %d was ended by signal %d (%s)\n", current_rank(), signal,
               strsignal(signal));
  let_others_speak(kForOthersToSpeak);
  return 128 + signal;
}

pid_t start_rank(const std::vector<std::string>& command, const sigset_t& watched) {
  std::signal(SIGCHLD, SIG_DFL);  // ignored, as some shells leave it, waitpid() finds nobody
  sigset_t before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  const pid_t guardian = getpid();
  const pid_t rank = fork();
  if (rank == 0) be_the_rank(command, before, guardian);
  if (rank > 0) return rank;
  throw cannot_fork(command);
}

}  // namespace

int guard(const std::vector<std::string>& command) {
  const pid_t launcher = getppid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t watched = watched_signals();
  const pid_t rank = start_rank(command, watched);
  const sigset_t ending = ending_signals();
  for (;;) {
    const int signal = sigtimedwait(&watched, nullptr, &kLookEvery);
    if (signal > 0 && sigismember(&ending, signal) == 1) {
      end_now(rank, signal);
      end_orphans();
      return 128 + signal;
    }
    if (const auto status = status_of(rank)) return exit_code_of(*status, launcher);
    if (getppid() != launcher) {
      end_now(rank, SIGTERM);
      end_orphans();
      return 1;
    }
  }
}

}  // namespace zeroshard::cli
