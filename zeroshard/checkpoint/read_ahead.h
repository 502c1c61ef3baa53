// Reads a list of places in files, one after the other: into one piece of memory when each is asked
// for, or, with several, some ahead on threads of its own, one for each piece: a disk is faster
// when several blocks are under way.
//
//   ReadAhead reads(paths, places, memory);
//   while (const std::byte* bytes = reads.next()) { ... }   // of places[0], places[1], ...
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "zeroshard/checkpoint/file.h"

namespace zeroshard {

// A place to read, in file number `file` of a list.
struct ReadPlace {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  std::uint64_t end() const { return begin + bytes; }
};

// Where what is read goes: equal slots, aligned to 4096, whose sizes are multiples of that.
struct ReadMemory {
  std::vector<std::byte*> slots;
  std::size_t slot_bytes = 0;
};

class ReadAhead {
 public:
  // `path_of` names the files. `past_cache`: not through the kernel's cache, where every place
  // begins at a multiple of 4096 and the file system can. Each place fits into a slot.
  using PathOf = std::function<std::filesystem::path(std::size_t file)>;
  ReadAhead(PathOf path_of, std::vector<ReadPlace> places, ReadMemory memory, bool past_cache);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The bytes of the next place, until the next call; null behind the last one. Throws
  // StorageError.
  const std::byte* next();

 private:
  // The file that a thread reads.
  struct Reader {
    std::optional<File> file;
    std::size_t number = 0;
  };

  void read_some();
  std::optional<std::size_t> take_place();
  void read(Reader& reader, std::size_t place) const;
  const std::byte* wait_for(std::size_t number);

  const PathOf path_of_;
  const std::vector<ReadPlace> places_;
  const ReadMemory memory_;
  const bool past_cache_;
  Reader reader_;          // where there is one slot
  std::size_t given_ = 0;  // places that next() has been asked for

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t taken_ = 0;                   // guarded by mutex_, like all that follows
  std::size_t freed_ = 0;                   // places whose slots may be used again
  std::vector<bool> read_;                  // by place
  std::vector<std::exception_ptr> errors_;  // by place
  bool ending_ = false;
  std::vector<std::thread> threads_;  // none where there is one slot
};

}  // namespace zeroshard
