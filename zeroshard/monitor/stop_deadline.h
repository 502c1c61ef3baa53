// Who asks a run to stop is not kept waiting for ever: where the run has not come to its end in
// time, `abandon` is called, on a thread of its own, to end the process.
//
//   StopDeadline deadline(interrupts, 10s, [](int signal) { _exit(exit_code_of(signal)); });
//   train();
//   {
//     const StopDeadline::Pause pause(deadline);   // a file that is begun is finished
//     write_files();
//   }
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "zeroshard/monitor/interrupts.h"

namespace zeroshard {

class StopDeadline {
 public:
  using Abandon = std::function<void(int signal)>;

  // Time counts from the first SIGINT or SIGTERM, or what stands for them.
  StopDeadline(const Interrupts& interrupts, std::chrono::milliseconds patience, Abandon abandon);
  ~StopDeadline();
  StopDeadline(const StopDeadline&) = delete;
  StopDeadline& operator=(const StopDeadline&) = delete;

  // While one lives nothing is abandoned; behind the last the patience is a whole one again.
  class Pause {
   public:
    explicit Pause(StopDeadline& deadline) : deadline_(deadline) { deadline_.pause(1); }
    ~Pause() { deadline_.pause(-1); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    StopDeadline& deadline_;
  };

 private:
  using Clock = std::chrono::steady_clock;

  void pause(int more);
  void watch();
  bool is_over() const;

  const Interrupts& interrupts_;
  const std::chrono::milliseconds patience_;
  const Abandon abandon_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  int pauses_ = 0;  // that live
  Clock::time_point counts_from_ = Clock::now();
  std::thread thread_;  // last: it uses all the others
};

}  // namespace zeroshard
