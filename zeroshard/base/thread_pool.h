// Splits loops over the CPUs of one process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "zeroshard/base/cpu_limit.h"

namespace zeroshard {

// How a loop over [0, n) is cut: a function of these three numbers alone, so that sums kept per
// chunk come out the same every time. Every chunk starts at a multiple of `grain`.
struct ChunkPlan {
  // More chunks than threads, so that one slow thread does not hold up the loop.
  static constexpr std::int64_t kChunksPerThread = 4;

  std::int64_t n = 0;
  std::int64_t grain = 1;
  int threads = 1;

  std::int64_t count() const;
  std::int64_t begin_of(std::int64_t chunk) const;  // begin_of(count()) is n
};

// A fixed number of threads, the caller's included, that sleep while there is nothing to do.
//
//   ThreadPool pool;                        // one thread per usable CPU
//   pool.parallel_for(numel, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
//     update(begin, end);                   // all chunks together cover [0, numel) once
//   });                                     // returns when the last chunk is done
//                                           // the destructor joins the threads
//
// Several threads may call parallel_for at once. The pool must outlive the calls.
class ThreadPool {
 public:
  using Body = std::function<void(std::int64_t begin, std::int64_t end)>;

  explicit ThreadPool(int threads = usable_cpus());
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Runs `body` on chunks of [0, n) and waits for them. If a chunk throws, no new ones are started
  // and the exception of the first throwing chunk in order is rethrown here. A call from inside a
  // body runs its chunks on the spot, in order. Bodies run as the caller's rank (base/rank.h).
  void parallel_for(std::int64_t n, std::int64_t grain, const Body& body);

 private:
  struct Loop;

  void work(std::stop_token stop);
  void run_chunk(Loop& loop, std::unique_lock<std::mutex>& lock);
  void retire(Loop& loop);

  const int threads_;
  std::mutex mutex_;
  std::condition_variable_any wake_;   // workers: a loop came, or the pool ends
  std::condition_variable_any done_;   // callers: a loop's last chunk ended
  std::deque<Loop*> loops_;            // guarded by mutex_: loops with chunks nobody has taken yet
  std::vector<std::jthread> workers_;  // last, so that they end before what they use
};

}  // namespace zeroshard
