// The process's one thread that may call MPI. MPI is initialised once per process, and the thread
// that does so must also end it; so, unlike communicators, it lives until the program ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "zeroshard/comm/control.h"
#include "zeroshard/comm/mpi_link.h"

namespace zeroshard {

class MpiThread {
 public:
  // Starts it, and MPI, on first use.
  static MpiThread& of_process();

  int rank() const { return link_->rank(); }
  int world_size() const { return link_->world_size(); }
  // The channel is null where there is one rank.
  ControlChannel* channel() const { return channel_.get(); }

  // What a communicator does on this thread. Returns how long to wait for the other ranks at the
  // program's end; kBroken if MPI must not be called again.
  using Work = std::function<std::chrono::milliseconds(MpiLink&)>;
  static constexpr std::chrono::milliseconds kBroken{0};

  // Throws StateError while other work runs, or after it has failed.
  void begin(Work work);
  // Blocks until the work has returned.
  void wait();
  // The program's end calls this.
  void end();

 private:
  MpiThread();
  void run();
  void work_until_the_end();
  void leave();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<MpiLink> link_;  // made by the thread, and then there for good
  std::unique_ptr<ControlChannel> channel_;
  std::exception_ptr start_failure_;
  Work work_;
  std::chrono::milliseconds patience_ = std::chrono::minutes(1);
  bool ending_ = false;
  std::thread thread_;  // last: it starts when all the above is there
};

}  // namespace zeroshard
