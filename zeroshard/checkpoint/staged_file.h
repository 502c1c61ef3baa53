// A file that is written from its beginning to its end through a few slots of fixed size: while one
// is filled, others are on their way to the disk.
//
//   StagedFile file(path, bytes, staging);
//   while (...) {
//     const std::span<std::byte> room = file.room();
//     file.filled(copy_some(room));
//   }
//   const StoredFile written = file.finish();   // synced; its size and its checksums
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/layout/save_memory.h"

namespace zeroshard {

static_assert(kSaveSlotBytes % kChunkBytes == 0, "every chunk lies in one slot");

// The memory of the slots: of the caller, who may have pinned it, or plain. It serves one file at a
// time.
class SaveStaging {
 public:
  SaveStaging();
  // kSaveStagingBytes, aligned to 4096; it must outlive this.
  explicit SaveStaging(std::byte* memory) : memory_(memory) {}

  std::byte* slot(std::size_t number) const { return memory_ + number * kSaveSlotBytes; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> own_;
  std::byte* memory_;
};

class StagedFile {
 public:
  // Room for `bytes` is taken at once, where the file system can. The staging must outlive it.
  StagedFile(const std::filesystem::path& path, std::uint64_t bytes, const SaveStaging& staging);
  // Without finish() the file is left as far as it is.
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  // Where the next bytes go; never empty, and its place in the file is a multiple of nothing in
  // particular. Blocks while all slots are on their way. Throws what went wrong with earlier ones.
  std::span<std::byte> room();
  // That many bytes of it have been written.
  void filled(std::size_t bytes);

  // All `bytes` must have been given. The file is on the disk when it returns.
  StoredFile finish();

 private:
  struct Write {
    std::size_t slot = 0;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };

  void send();
  void write_slots();
  void write(const Write& one);
  void stop();

  File file_;
  const std::uint64_t bytes_;
  const SaveStaging& staging_;
  std::vector<Checksum> chunks_;
  std::uint64_t sent_ = 0;   // bytes in slots that are full
  std::size_t in_slot_ = 0;  // bytes in the one that is being filled
  std::size_t slots_sent_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Write> waiting_;  // guarded by mutex_, like all that follows
  std::size_t slots_written_ = 0;
  bool ending_ = false;
  std::exception_ptr error_;
  std::thread writer_;  // last: it uses all the others
};

}  // namespace zeroshard
