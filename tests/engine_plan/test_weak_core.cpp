// A core that goes while hooks on other threads are in it. It is only pointed to, never touched.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/engine/weak_core.h"

namespace zeroshard {
namespace {

Core* some_core() {
  static int memory = 0;
  return reinterpret_cast<Core*>(&memory);
}

TEST(WeakCore, IsGoneAfterItsEnd) {
  const auto weak = std::make_shared<WeakCore>(some_core());
  EXPECT_TRUE(CoreAccess(weak));
  weak->end();
  EXPECT_FALSE(CoreAccess(weak));
  EXPECT_FALSE(CoreAccess(nullptr));
}

TEST(WeakCore, EndWaitsForThoseWhoAreIn) {
  const auto weak = std::make_shared<WeakCore>(some_core());
  std::atomic<bool> in = false, left = false;
  std::thread hook([&] {
    const CoreAccess core(weak);
    in = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    left = true;
  });
  while (!in) std::this_thread::yield();
  weak->end();
  EXPECT_TRUE(left);
  hook.join();
}

TEST(WeakCore, AHookMayEndItsOwn) {
  const auto weak = std::make_shared<WeakCore>(some_core());
  const CoreAccess outer(weak), inner(weak);
  weak->end();
  EXPECT_TRUE(outer);
}

TEST(WeakCore, ManyThreadsComeAndGo) {
  const auto weak = std::make_shared<WeakCore>(some_core());
  std::atomic<bool> over = false;
  std::atomic<int> late = 0;
  std::vector<std::thread> hooks;
  for (int i = 0; i < 4; ++i) {
    hooks.emplace_back([&] {
      for (int turn = 0; turn < 5000; ++turn) {
        const CoreAccess core(weak);
        if (core && over) ++late;
      }
    });
  }
  std::this_thread::yield();
  weak->end();
  over = true;
  for (std::thread& hook : hooks) hook.join();
  EXPECT_EQ(late, 0);
}

}  // namespace
}  // namespace zeroshard
