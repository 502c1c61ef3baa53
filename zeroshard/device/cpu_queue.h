// A thread of its own that does work in order: the CPU's side stream. The thread sleeps while there
// is nothing to do and ends, after the work it was given, when the queue goes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "zeroshard/device/backend.h"

namespace zeroshard {

// After work has thrown, later work is skipped (it counts on what came before) until synchronize()
// has thrown the error. Points recorded meanwhile carry the failure, and a stream that waits for
// one of them fails the same way. A failure that nobody was told of is logged at the end.
class CpuQueue final : public StreamQueue {
 public:
  CpuQueue();
  ~CpuQueue() override;

  Device device() const override { return kCpu; }
  std::int64_t id() const override { return id_; }
  void run(std::function<void()> work) override;
  void copy(const CopyRequest& request) override;
  PointPtr record() override;
  void wait(const PointPtr& point) override;
  void synchronize() override;

 private:
  // Apart from the queue, so that the thread may outlive it by the work that held its last copy.
  struct Core;

  const std::int64_t id_;
  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

// A copy on the calling thread, done when it returns; through a stream of the accelerator where an
// end is not the CPU's.
void copy_now(const CopyRequest& request);

}  // namespace zeroshard
