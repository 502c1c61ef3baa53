#include <atomic>
#include <chrono>
#include <latch>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/base/thread_pool.h"

namespace zeroshard {
namespace {

using Chunk = std::pair<std::int64_t, std::int64_t>;

std::set<Chunk> chunks_of(ThreadPool& pool, std::int64_t n, std::int64_t grain) {
  std::mutex mutex;
  std::set<Chunk> chunks;
  pool.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    std::lock_guard lock(mutex);
    EXPECT_TRUE(chunks.emplace(begin, end).second) << "chunk ran twice";
  });
  return chunks;
}

TEST(ChunkPlan, CoversTheRangeInOrderAtMultiplesOfTheGrain) {
  for (const std::int64_t n : {0, 1, 5, 63, 64, 65, 1000, 4096}) {
    for (const std::int64_t grain : {1, 3, 64, 5000}) {
      for (const int threads : {1, 2, 3, 8}) {
        const ChunkPlan plan{.n = n, .grain = grain, .threads = threads};
        EXPECT_EQ(plan.begin_of(0), 0);
        EXPECT_EQ(plan.begin_of(plan.count()), n);
        for (std::int64_t c = 0; c < plan.count(); ++c) {
          EXPECT_EQ(plan.begin_of(c) % grain, 0);
          EXPECT_LT(plan.begin_of(c), plan.begin_of(c + 1));
        }
      }
    }
  }
}

TEST(ChunkPlan, ChunksAreNearlyEqualAndFew) {
  const ChunkPlan plan{.n = 1003, .grain = 1, .threads = 4};
  EXPECT_EQ(plan.count(), 16);
  for (std::int64_t c = 0; c < plan.count(); ++c) {
    const auto size = plan.begin_of(c + 1) - plan.begin_of(c);
    EXPECT_TRUE(size == 62 || size == 63) << size;
  }
  EXPECT_EQ((ChunkPlan{.n = 100, .grain = 64, .threads = 4}.count()), 2);
  EXPECT_EQ((ChunkPlan{.n = 100, .grain = 1, .threads = 1}.count()), 1);
  EXPECT_EQ((ChunkPlan{.n = 0, .grain = 1, .threads = 4}.count()), 0);
}

TEST(ChunkPlan, LargeRangesDoNotOverflow) {
  const auto n = std::numeric_limits<std::int64_t>::max();
  const ChunkPlan plan{.n = n, .grain = 1 << 20, .threads = 64};
  EXPECT_LT(plan.begin_of(plan.count() - 1), n);
  EXPECT_GT(plan.begin_of(plan.count() - 1), n / 2);
}

TEST(ThreadPool, TouchesEveryElementOnce) {
  ThreadPool pool(4);
  std::vector<int> touched(10'007, 0);
  pool.parallel_for(std::ssize(touched), 16, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) ++touched[static_cast<std::size_t>(i)];
  });
  EXPECT_EQ(touched, std::vector<int>(10'007, 1));
}

TEST(ThreadPool, ChunksFollowThePlanEveryTime) {
  ThreadPool pool(3);
  const ChunkPlan plan{.n = 1000, .grain = 7, .threads = 3};
  std::set<Chunk> planned;
  for (std::int64_t c = 0; c < plan.count(); ++c) {
    planned.emplace(plan.begin_of(c), plan.begin_of(c + 1));
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(chunks_of(pool, 1000, 7), planned);
}

TEST(ThreadPool, NothingToDo) {
  ThreadPool pool(4);
  EXPECT_TRUE(chunks_of(pool, 0, 16).empty());
}

TEST(ThreadPool, OneThreadRunsOnTheCaller) {
  ThreadPool pool(1);
  const auto caller = std::this_thread::get_id();
  pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
  });
}

TEST(ThreadPool, AllThreadsTakePartTheCallerToo) {
  ThreadPool pool(3);
  std::latch together(3);  // passes only if three chunks run at the same time
  std::mutex mutex;
  std::set<std::thread::id> ids;
  pool.parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
    together.arrive_and_wait();
    std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, RethrowsTheFirstChunksExceptionWhicheverCameFirst) {
  ThreadPool pool(4);
  for (const std::int64_t late : {3, 4}) {
    std::latch both_taken(2);
    try {
      pool.parallel_for(16, 1, [&](std::int64_t begin, std::int64_t) {
        if (begin != 3 && begin != 4) return;
        both_taken.arrive_and_wait();
        if (begin == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        throw std::runtime_error(std::to_string(begin));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "3") << "with chunk " << late << " throwing last";
    }
  }
}

TEST(ThreadPool, StartsNoChunkAfterAFailureWasSeen) {
  ThreadPool pool(2);
  std::atomic<int> ran = 0;
  EXPECT_THROW(pool.parallel_for(8, 1,
                                 [&](std::int64_t begin, std::int64_t) {
                                   ++ran;
                                   if (begin == 0) throw std::runtime_error("first");
                                   std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                 }),
               std::runtime_error);
  EXPECT_LT(ran, 8);
}

TEST(ThreadPool, WorksAfterAnException) {
  ThreadPool pool(4);
  EXPECT_THROW(pool.parallel_for(100, 1, [](auto, auto) { throw 1; }), int);
  EXPECT_EQ(chunks_of(pool, 100, 1).size(), 16u);
}

TEST(ThreadPool, NestedCallsRunInline) {
  ThreadPool pool(4);
  std::atomic<std::int64_t> sum = 0;
  // Few outer chunks and slow inner ones: idle workers would take some if they could.
  pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    const auto thread = std::this_thread::get_id();
    std::int64_t expected_begin = 0;
    pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      EXPECT_EQ(begin, std::exchange(expected_begin, end));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      sum += end - begin;
    });
  });
  EXPECT_EQ(sum, 2 * 100);
}

TEST(ThreadPool, NestedCallsFromEveryThreadDoNotDeadlock) {
  ThreadPool pool(4);
  std::latch all_inside(4);
  std::atomic<std::int64_t> sum = 0;
  pool.parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
    all_inside.arrive_and_wait();
    pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
  });
  EXPECT_EQ(sum, 4 * 100);
}

TEST(ThreadPool, NestedExceptionsReachTheOuterCaller) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.parallel_for(8, 1,
                                 [&](auto, auto) {
                                   pool.parallel_for(
                                       8, 1, [](auto, auto) { throw std::runtime_error("inner"); });
                                 }),
               std::runtime_error);
}

TEST(ThreadPool, SeveralCallersShareIt) {
  ThreadPool pool(3);
  std::vector<std::int64_t> sums(4, 0);
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < sums.size(); ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<std::int64_t> sum = 0;
        pool.parallel_for(1000, 10,
                          [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
        sums[caller] += sum;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<std::int64_t>(4, 50 * 1000));
}

TEST(ThreadPool, BodiesRunAsTheCallersRank) {
  ThreadPool pool(4);
  RankScope scope(6);
  std::atomic<int> wrong = 0;
  pool.parallel_for(64, 1, [&](auto, auto) { wrong += current_rank() != 6; });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, StartsAndEndsQuickly) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 4);
    if (i % 2 == 0) chunks_of(pool, 10, 1);
  }
}

TEST(ThreadPool, DefaultsToTheUsableCpus) { EXPECT_EQ(ThreadPool().threads(), usable_cpus()); }

TEST(ThreadPool, RefusesNonsense) {
  EXPECT_THROW(ThreadPool(0), InvariantError);
  ThreadPool pool(2);
  const auto body = [](std::int64_t, std::int64_t) {};
  EXPECT_THROW(pool.parallel_for(-1, 1, body), InvariantError);
  EXPECT_THROW(pool.parallel_for(1, 0, body), InvariantError);
}

}  // namespace
}  // namespace zeroshard
