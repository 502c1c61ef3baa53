// The progress line on a terminal (a pseudo one) and in a file.
#include <algorithm>
#include <array>
#include <stdexcept>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/monitor/monitor_support.h"
#include "zeroshard/monitor/progress.h"

namespace zeroshard {
namespace {

using namespace std::chrono_literals;

class Terminal {
 public:
  explicit Terminal(unsigned short columns) : screen_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (screen_ < 0 || grantpt(screen_) != 0 || unlockpt(screen_) != 0) {
      throw std::runtime_error("no pseudo terminal");
    }
    program_ = open(ptsname(screen_), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 24, .ws_col = columns};
    if (program_ < 0 || ioctl(program_, TIOCSWINSZ, &size) != 0) {
      throw std::runtime_error("no pseudo terminal");
    }
  }
  ~Terminal() {
    close(program_);
    close(screen_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int descriptor() const { return program_; }

  void resize(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns};
    ASSERT_EQ(ioctl(program_, TIOCSWINSZ, &size), 0);
  }

  // All that was written since the last call.
  std::string shown() const {
    std::string text;
    std::array<char, 4096> some{};
    pollfd waiting{.fd = screen_, .events = POLLIN};
    while (poll(&waiting, 1, 50) == 1) {
      const auto count = read(screen_, some.data(), some.size());
      if (count <= 0) break;
      text.append(some.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int screen_;
  int program_ = -1;
};

struct FakeTime {
  std::chrono::steady_clock::time_point now{};

  ProgressOptions options(int descriptor, std::int64_t total_steps) {
    return {.total_steps = total_steps, .descriptor = descriptor, .now = [this] { return now; }};
  }
};

TEST(Progress, RewritesOneLineOnATerminal) {
  const Terminal terminal(40);
  FakeTime time;
  Progress progress(time.options(terminal.descriptor(), 10));
  EXPECT_TRUE(progress.on_terminal());
  EXPECT_EQ(terminal.shown(), "") << "nothing before the first step";
  time.now += 1s;
  progress.update({.step = 1, .loss = 2.5});
  EXPECT_EQ(terminal.shown(), "\r[=>        ] 1/10  loss 2.5  9.0 s left\x1b[K");
  time.now += 1s;
  progress.update({.step = 2, .loss = 2.25});
  EXPECT_EQ(terminal.shown(), "\r[=>       ] 2/10  loss 2.25  8.0 s left\x1b[K");
}

TEST(Progress, DrawsAtMostTenTimesASecond) {
  const Terminal terminal(30);
  FakeTime time;
  Progress progress(time.options(terminal.descriptor(), 1000));
  std::string shown;
  for (int step = 1; step <= 500; ++step) {
    time.now += 4ms;
    progress.update({.step = step});
    if (step % 100 == 0) shown += terminal.shown();
  }
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\r'), 20) << "in two seconds";
}

TEST(Progress, FollowsAWindowThatChanges) {
  const Terminal terminal(80);
  FakeTime time;
  Progress progress(time.options(terminal.descriptor(), 1000));
  for (const unsigned short columns : {80, 30, 12, 100}) {
    terminal.resize(columns);
    time.now += 1s;
    progress.update({.step = 500, .loss = 2.5, .perplexity = 12.18, .learning_rate = 0.001});
    const std::string shown = terminal.shown();
    EXPECT_LT(shown.size() - std::string("\r\x1b[K").size(), columns) << shown;
    EXPECT_NE(shown.find("500/1000"), std::string::npos) << shown;
  }
}

TEST(Progress, ATerminalAtAPipesOtherEndIsAskedEachTime) {
  const testing::TemporaryFolder folder;
  FakeTime time;
  std::size_t columns = 20;
  ProgressOptions options =
      time.options(open((folder / "pipe").c_str(), O_WRONLY | O_CREAT, 0600), 10);
  options.columns = [&] { return columns; };
  {
    Progress progress(options);
    EXPECT_TRUE(progress.on_terminal());
    for (const int step : {1, 2}) {
      time.now += 1s;
      progress.update({.step = step});
      columns = 6;
    }
  }
  close(options.descriptor);
  EXPECT_EQ(testing::read_text(folder / "pipe"), "\r1/10  9.0 s left\x1b[K\r2/10\x1b[K\r\x1b[K");
}

TEST(Progress, AnEvaluationCountsNeitherInSpeedNorInTheTimeLeft) {
  const Terminal terminal(80);
  FakeTime time;
  Progress progress(time.options(terminal.descriptor(), 10));
  for (int step = 1; step <= 5; ++step) {
    time.now += 2s;
    progress.update({.step = step, .tokens_per_step = 4096});
    time.now += 60s;
    progress.pass_over();
  }
  const std::string shown = terminal.shown();
  EXPECT_TRUE(shown.ends_with("5/10  2.05 K tokens/s  10.0 s left\x1b[K")) << shown;
}

TEST(Progress, TheLastStepIsAlwaysDrawn) {
  const Terminal terminal(30);
  FakeTime time;
  Progress progress(time.options(terminal.descriptor(), 2));
  progress.update({.step = 1});
  terminal.shown();
  progress.update({.step = 2});
  EXPECT_NE(terminal.shown().find("2/2"), std::string::npos);
}

TEST(Progress, TheLineIsGoneAtTheEndAndBeforeOtherOutput) {
  const Terminal terminal(40);
  FakeTime time;
  {
    Progress progress(time.options(terminal.descriptor(), 0));
    progress.clear();
    EXPECT_EQ(terminal.shown(), "") << "there is no line yet";
    progress.update({.step = 1});
    terminal.shown();
    progress.clear();
    EXPECT_EQ(terminal.shown(), "\r\x1b[K");
    time.now += 1s;
    progress.update({.step = 2});
    terminal.shown();
  }
  EXPECT_EQ(terminal.shown(), "\r\x1b[K");
}

std::string plain_lines(ProgressOptions options, int last_step, FakeTime& time) {
  const testing::TemporaryFolder folder;
  options.descriptor = open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  {
    Progress progress(options);
    EXPECT_FALSE(progress.on_terminal());
    for (auto step = options.first_step + 1; step <= last_step; ++step) {
      time.now += 2s;
      progress.update({.step = step, .loss = 1.5, .tokens_per_step = 4096});
    }
  }
  close(options.descriptor);
  return testing::read_text(folder / "log");
}

TEST(Progress, PrintsPlainLinesElsewhere) {
  FakeTime time;
  ProgressOptions options = time.options(-1, 25);
  EXPECT_EQ(plain_lines(options, 25, time),
            "step 1/25, loss 1.5, 2.05 K tokens/s, 48.0 s left\n"
            "step 10/25, loss 1.5, 2.05 K tokens/s, 30.0 s left\n"
            "step 20/25, loss 1.5, 2.05 K tokens/s, 10.0 s left\n"
            "step 25/25, loss 1.5, 2.05 K tokens/s, 0 ms left\n");
}

TEST(Progress, AResumedRunCountsFromItsFirstStep) {
  FakeTime time;
  ProgressOptions options = time.options(-1, 110);
  options.first_step = 100;
  options.steps_per_line = 5;
  EXPECT_EQ(plain_lines(options, 110, time),
            "step 101/110, loss 1.5, 2.05 K tokens/s, 18.0 s left\n"
            "step 105/110, loss 1.5, 2.05 K tokens/s, 10.0 s left\n"
            "step 110/110, loss 1.5, 2.05 K tokens/s, 0 ms left\n");
}

TEST(Progress, OutputThatFailsIsDropped) {
  const int full = open("/dev/full", O_WRONLY);
  Progress progress({.total_steps = 1, .descriptor = full});
  progress.update({.step = 1});
  close(full);
}

}  // namespace
}  // namespace zeroshard
