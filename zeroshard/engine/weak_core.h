// How hooks in autograd's graph find the core. They may outlive it, and they run on autograd's
// threads while somebody else destroys it.
//
//   if (const CoreAccess core{weak_core}) core->before_backward(use);   // it stays while we are in
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

namespace zeroshard {

class Core;

class WeakCore {
 public:
  explicit WeakCore(Core* core) : core_(core) {}
  WeakCore(const WeakCore&) = delete;
  WeakCore& operator=(const WeakCore&) = delete;

  // The core goes: nobody finds it from here on. Returns when every other thread that is in has
  // left. A thread that destroys the core from inside a hook does not wait for itself.
  void end();

 private:
  friend class CoreAccess;
  Core* enter();
  void leave();

  std::mutex mutex_;
  std::condition_variable left_;
  Core* core_;
  int inside_ = 0;
};

// The core, which cannot go while this lives; or nothing, where it is gone already.
class CoreAccess {
 public:
  explicit CoreAccess(std::shared_ptr<WeakCore> to);
  ~CoreAccess();
  CoreAccess(const CoreAccess&) = delete;
  CoreAccess& operator=(const CoreAccess&) = delete;

  explicit operator bool() const { return core_ != nullptr; }
  Core* operator->() const { return core_; }

 private:
  const std::shared_ptr<WeakCore> to_;
  Core* const core_;
};

}  // namespace zeroshard
