// Signals that ask a training run for something. The handler only notes them; the loop looks after
// each step:
//
//   Interrupts interrupts;
//   while (...) {
//     train_one_step();
//     const int signal = interrupts.requested();
//     if (signal != 0) log_info("{}", interrupt_text(signal));
//     if (interrupts_training(signal)) return save_and_exit(exit_code_of(signal));
//   }
//
// SIGINT and SIGTERM ask to stop, SIGUSR1 asks for a checkpoint. SIGUSR2 stands for SIGINT and
// SIGALRM for SIGTERM: mpirun hands these on to its ranks, while it ends them itself on the others.
// A second SIGINT ends the process at once, for those who will not wait. A SIGINT or SIGTERM that
// was ignored before (nohup, a shell's background job) stays ignored.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>

namespace zeroshard {

// While it lives, the signals are noted; then their former handlers are back. One at a time: a
// second is a StateError.
class Interrupts {
 public:
  // Some launchers pass on a SIGINT that the terminal has sent to everybody already. Those that
  // arrive within `repeat_window` of the first are taken for the same one.
  explicit Interrupts(std::chrono::milliseconds repeat_window = std::chrono::milliseconds(300));
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // SIGINT or SIGTERM, whichever asked first, from then on; else SIGUSR1, once for those that came
  // since the last call; else 0.
  int requested() noexcept;

  // The same without SIGUSR1, from any thread; and how long ago the first of them came.
  int stop_requested() const noexcept;
  std::optional<std::chrono::nanoseconds> stop_asked_for() const noexcept;

 private:
  struct Former {
    int signal = 0;
    struct sigaction action {};
  };
  std::array<Former, 5> former_;
};

// Whether the run should end: SIGINT and SIGTERM.
bool interrupts_training(int signal) noexcept;

// What the shell expects of a program that a signal ended: 130 for SIGINT, 143 for SIGTERM.
int exit_code_of(int signal) noexcept;

// "SIGINT asked to stop", "USR1 asked for a checkpoint"
std::string interrupt_text(int signal);

}  // namespace zeroshard
