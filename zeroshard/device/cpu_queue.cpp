#include "zeroshard/device/cpu_queue.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/device/stalls.h"

namespace zeroshard {
namespace {

using FailurePtr = std::shared_ptr<StreamFailure>;

std::int64_t next_id() {
  static std::atomic<std::int64_t> last = kCallingThreadId;
  return ++last;
}

FailurePtr failure_of(std::exception_ptr error) {
  auto failure = std::make_shared<StreamFailure>();
  failure->error = std::move(error);
  return failure;
}

// The completion flag of the CPU.
class CpuPoint final : public StreamPoint {
 public:
  void reach(FailurePtr failure) {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      failure_ = std::move(failure);
    }
    reached_.notify_all();
  }

  bool done() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  void block() const override {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [&] { return done_; });
  }

  FailurePtr failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable reached_;
  bool done_ = false;
  FailurePtr failure_;
};

}  // namespace

struct CpuQueue::Core {
  // What the thread does next. It is given the stream's failure, and may set it.
  using Step = std::function<void(FailurePtr& failure)>;

  void add(Step step) {
    {
      const std::lock_guard lock(mutex);
      steps.push_back(std::move(step));
    }
    added.notify_one();
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    added.notify_one();
  }

  void work(int rank) {
    const RankScope scope(rank);
    FailurePtr failure;
    for (;;) {
      std::unique_lock lock(mutex);
      added.wait(lock, [&] { return closing || !steps.empty(); });
      if (steps.empty()) break;
      const Step step = std::move(steps.front());
      steps.pop_front();
      lock.unlock();
      step(failure);
    }
    if (failure == nullptr || failure->reported) return;
    log_error("work on a side stream failed and nobody waited for it: {}",
              message_of(failure->error));
  }

  std::mutex mutex;
  std::condition_variable added;
  std::deque<Step> steps;
  bool closing = false;
};

CpuQueue::CpuQueue()
    : id_(next_id()),
      core_(std::make_shared<Core>()),
      thread_([core = core_, rank = current_rank()] { core->work(rank); }) {}

CpuQueue::~CpuQueue() {
  core_->close();
  // The last copy of the stream may have been held by the stream's own work.
  const bool own_work = thread_.get_id() == std::this_thread::get_id();
  own_work ? thread_.detach() : thread_.join();
}

void CpuQueue::run(std::function<void()> work) {
  core_->add([work = std::move(work)](FailurePtr& failure) {
    if (failure != nullptr) return;
    try {
      stall_here();
      work();
    } catch (...) {
      failure = failure_of(std::current_exception());
    }
  });
}

void CpuQueue::copy(const CopyRequest& request) {
  run([request] { copy_now(request); });
}

PointPtr CpuQueue::record() {
  auto point = std::make_shared<CpuPoint>();
  core_->add([point](FailurePtr& failure) { point->reach(failure); });
  return point;
}

void CpuQueue::wait(const PointPtr& point) {
  // A stream that has failed waits all the same: the failure may be cleared, the order must hold.
  core_->add([point](FailurePtr& failure) {
    try {
      point->block();
      if (failure == nullptr) failure = point->failure();
    } catch (...) {
      if (failure == nullptr) failure = failure_of(std::current_exception());
    }
  });
}

void CpuQueue::synchronize() {
  const auto end = std::make_shared<CpuPoint>();
  core_->add([end](FailurePtr& failure) { end->reach(std::exchange(failure, nullptr)); });
  end->synchronize();
}

void copy_now(const CopyRequest& request) {
  const bool to_cpu = request.to_device.kind == DeviceKind::cpu;
  if (to_cpu && request.from_device.kind == DeviceKind::cpu) {
    std::memcpy(request.to, request.from, static_cast<std::size_t>(request.bytes));
    return;
  }
  const Device accelerator = to_cpu ? request.from_device : request.to_device;
  const auto queue =
      backend_of(accelerator.kind).make_stream(accelerator.index, StreamPriority::usual);
  queue->copy(request);
  queue->synchronize();
}

}  // namespace zeroshard
