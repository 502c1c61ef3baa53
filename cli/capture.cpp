#include "cli/capture.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace zeroshard::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Started {
  pid_t process = -1;
  int output = -1;  // where its standard output is read from
};

Started start(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  Started started{.process = -1, .output = ends[0]};
  if (posix_spawn(&started.process, words[0], &actions, nullptr, words.data(), environ) != 0) {
    started.process = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  return started;
}

// True when the program has closed its output; false when the time is over.
bool read_all(int descriptor, Clock::time_point deadline, std::string& text) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready{descriptor, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) == 0) return false;
    const ssize_t bytes = read(descriptor, buffer.data(), buffer.size());
    if (bytes == 0) return true;
    if (bytes > 0) text.append(buffer.data(), static_cast<std::size_t>(bytes));
    if (bytes < 0 && errno != EINTR) return false;
  }
}

}  // namespace

std::string captured_output(const std::vector<std::string>& command,
                            std::chrono::milliseconds limit) {
  const Started started = start(command);
  std::string text;
  bool good = false;
  if (started.process > 0) {
    good = read_all(started.output, Clock::now() + limit, text);
    if (!good) kill(started.process, SIGKILL);
    int status = 0;
    good = waitpid(started.process, &status, 0) == started.process && good && status == 0;
  }
  if (started.output >= 0) close(started.output);
  return good ? text : "";
}

}  // namespace zeroshard::cli
