// One open file and its path: whole reads and writes at offsets, and errors that name the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace zeroshard {

// What goes past the kernel's cache comes in multiples of this: offsets, sizes and addresses.
inline constexpr std::size_t kBlockBytes = 4096;

// Makes the names in a folder durable: a rename is safe only once its folder is on the disk.
void sync_folder(const std::filesystem::path& folder);

class File {
 public:
  // A regular file; a pipe or a device is refused, lest a read waits for ever.
  static File open_to_read(const std::filesystem::path& path);

  // The same past the kernel's cache, where the file system can: for read_block().
  static File open_to_read_directly(const std::filesystem::path& path);

  // Made new, or emptied where it exists. Held by a lock while it is open: a second writer of the
  // same path gets a StorageError, whatever a dead one left behind is overwritten.
  static File open_to_write(const std::filesystem::path& path);
  // The same past the kernel's cache, where the file system can: faster for much data, and nothing
  // else is pushed out of memory. Offsets, sizes and addresses of what is written are then
  // multiples of 4096; truncate() cuts the end to what it should be.
  static File open_to_write_directly(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const;

  // All of `into`, or a StorageError. Safe from several threads at once.
  void read_at(std::uint64_t offset, std::span<std::byte> into) const;
  // The same from a multiple of 4096 into memory that is aligned to it and has room up to the next
  // one, as reads past the cache want it.
  void read_block(std::uint64_t offset, std::span<std::byte> into) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  // Room on the disk for that much; false where the file system does not know. No room is a
  // StorageError.
  bool reserve(std::uint64_t bytes);
  void truncate(std::uint64_t bytes);
  // Begins to bring to the disk what was written there, and waits for nothing.
  void start_sync(std::uint64_t offset, std::uint64_t bytes) noexcept;

  // Lets the kernel read far ahead. It changes nothing but the speed.
  void expect_reads_in_order() const noexcept;

  // Until it is on the disk. Some file systems tell only here that there was no room.
  void sync();

 private:
  File(std::filesystem::path path, int descriptor);
  static File open_to_read(const std::filesystem::path& path, int flags);
  static File open_to_write(const std::filesystem::path& path, int flags);
  bool stop_direct() const;
  std::size_t read_some(std::uint64_t offset, std::byte* into, std::size_t wanted) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  mutable bool direct_ = false;
};

// A small file whole and synced. It has its final name from the start, so this is for folders that
// are written aside themselves (write_folder.h).
void write_text_file(const std::filesystem::path& path, std::string_view text);

// A small file whole. Larger than `limit_bytes` is a StorageError.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes);

}  // namespace zeroshard
