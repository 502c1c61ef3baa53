#include "zeroshard/base/thread_pool.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "zeroshard/base/check.h"
#include "zeroshard/base/rank.h"

namespace zeroshard {
namespace {

// True while this thread runs a body, of whichever pool: a nested loop must not wait for workers
// that may all be waiting themselves.
thread_local bool inside_body = false;

void run_inline(const ChunkPlan& plan, const ThreadPool::Body& body) {
  for (std::int64_t chunk = 0; chunk < plan.count(); ++chunk) {
    body(plan.begin_of(chunk), plan.begin_of(chunk + 1));
  }
}

std::exception_ptr run_as_rank(int rank, const ThreadPool::Body& body, std::int64_t begin,
                               std::int64_t end) {
  RankScope scope(rank);
  inside_body = true;
  std::exception_ptr error;
  try {
    body(begin, end);
  } catch (...) {
    error = std::current_exception();
  }
  inside_body = false;
  return error;
}

}  // namespace

std::int64_t ChunkPlan::count() const {
  const std::int64_t grains = n / grain + (n % grain != 0 ? 1 : 0);
  return threads == 1 ? std::min<std::int64_t>(grains, 1)
                      : std::min(grains, threads * kChunksPerThread);
}

std::int64_t ChunkPlan::begin_of(std::int64_t chunk) const {
  const std::int64_t chunks = count();
  if (chunk >= chunks) return n;
  const std::int64_t grains = n / grain + (n % grain != 0 ? 1 : 0);
  // The first `grains % chunks` chunks are one grain longer than the others.
  return (grains / chunks * chunk + std::min(chunk, grains % chunks)) * grain;
}

// A call of parallel_for, on its caller's stack. All but the constants is guarded by mutex_; the
// caller leaves only when no chunk is untaken or running, so no worker sees it afterwards.
struct ThreadPool::Loop {
  const ChunkPlan plan;
  const Body& body;
  const int rank;
  std::int64_t next = 0;  // the first chunk nobody has taken
  std::int64_t end = 0;   // one past the last to be taken; moved down to `next` by a failure
  std::int64_t running = 0;
  std::int64_t failed_chunk = 0;
  std::exception_ptr error{};

  bool taken() const { return next == end; }
  bool finished() const { return taken() && running == 0; }
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  ZS_CHECK_GE(threads, 1, "a thread pool needs the calling thread at least");
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this](std::stop_token stop) { work(std::move(stop)); });
  }
}

ThreadPool::~ThreadPool() {
  // Asking all before joining the first lets them end together.
  for (auto& worker : workers_) worker.request_stop();
}

void ThreadPool::parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
  ZS_CHECK_GE(n, 0, "parallel_for");
  ZS_CHECK_GE(grain, 1, "parallel_for");
  const ChunkPlan plan{.n = n, .grain = grain, .threads = threads_};
  if (plan.count() <= 1 || inside_body) return run_inline(plan, body);

  Loop loop{.plan = plan, .body = body, .rank = current_rank(), .end = plan.count()};
  std::unique_lock lock(mutex_);
  loops_.push_back(&loop);
  wake_.notify_all();
  while (!loop.taken()) run_chunk(loop, lock);
  done_.wait(lock, [&] { return loop.finished(); });
  if (loop.error) std::rethrow_exception(loop.error);
}

void ThreadPool::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, stop, [this] { return !loops_.empty(); })) {
    run_chunk(*loops_.front(), lock);
  }
}

// Takes the next chunk of `loop` and runs it with the lock released.
void ThreadPool::run_chunk(Loop& loop, std::unique_lock<std::mutex>& lock) {
  const std::int64_t chunk = loop.next++;
  ++loop.running;
  if (loop.taken()) retire(loop);
  lock.unlock();
  auto error =
      run_as_rank(loop.rank, loop.body, loop.plan.begin_of(chunk), loop.plan.begin_of(chunk + 1));
  lock.lock();
  --loop.running;
  // Chunks are taken in order, so the first that throws has been taken whenever a later one throws.
  if (error && (!loop.error || chunk < loop.failed_chunk)) {
    loop.error = std::move(error);
    loop.failed_chunk = chunk;
    if (!loop.taken()) {
      loop.end = loop.next;
      retire(loop);
    }
  }
  if (loop.finished()) done_.notify_all();
}

void ThreadPool::retire(Loop& loop) { std::erase(loops_, &loop); }

}  // namespace zeroshard
