#include "zeroshard/checkpoint/process_lock.h"

#include <map>
#include <mutex>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

// Not where its folder was removed meanwhile, and perhaps made anew.
bool is_held(const SaveLock& lock) {
  try {
    lock.check_held();
    return true;
  } catch (const StorageError&) {
    return false;
  }
}

}  // namespace

std::shared_ptr<SaveLock> process_lock(const std::filesystem::path& folder) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::weak_ptr<SaveLock>> locks;
  const std::lock_guard guard(mutex);
  std::erase_if(locks, [](const auto& known) { return known.second.expired(); });
  if (const auto known = locks.find(folder); known != locks.end()) {
    std::shared_ptr<SaveLock> lock = known->second.lock();
    if (lock && is_held(*lock)) return lock;
  }
  auto lock = std::make_shared<SaveLock>(folder);
  locks[folder] = lock;
  return lock;
}

}  // namespace zeroshard
