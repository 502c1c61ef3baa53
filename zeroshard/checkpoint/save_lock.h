// One job at a time saves to a folder. Who comes second is told who is there.
//
// The lock is a file, DIR/.zeroshard-lock, locked (flock) as long as this lives: the kernel, of
// this host or of the file server, gives it back when the process ends, however it ends. Some file
// systems lock within one host only. So the file also says who holds it, and its holder looks
// before each save whether it still does: two jobs on two hosts then learn of each other at the
// latest there.
#pragma once

#include <filesystem>
#include <string>

namespace zeroshard {

inline constexpr const char* kLockFile = ".zeroshard-lock";

class SaveLock {
 public:
  // A folder that another job holds is a StorageError. `who` is for its message: "rank 0 on host
  // a".
  explicit SaveLock(const std::filesystem::path& folder);
  ~SaveLock();
  SaveLock(const SaveLock&) = delete;
  SaveLock& operator=(const SaveLock&) = delete;

  // Throws StorageError where another job has taken the folder over, or the lock's file is gone.
  void check_held() const;

 private:
  const std::filesystem::path path_;
  std::string owner_;  // what the file says
  int descriptor_ = -1;
};

}  // namespace zeroshard
