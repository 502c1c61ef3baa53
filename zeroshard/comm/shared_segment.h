// Memory that the ranks of one host share: each rank has a segment that it writes its messages
// into, one ring of bytes for each other rank, and a bell by which the others wake it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace zeroshard {

// How others find a rank's segment. Sent as bytes.
struct SegmentAddress {
  std::uint64_t host = 0;  // the boot and the process namespace
  std::int32_t process = 0;
  std::int32_t file = -1;  // the process's descriptor
};

// A stream of bytes from one rank to another: one writes, one reads.
struct SharedRing {
  static constexpr std::int64_t kBytes = 1 << 20;

  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  alignas(64) std::byte data[kBytes];

  // These move as much as fits now, or as there is now, and not more than is worth waiting
  // for. They return how many bytes.
  std::int64_t put(const std::byte* from, std::int64_t bytes);
  std::int64_t take(std::byte* into, std::int64_t bytes);
};

class SharedSegment {
 public:
  // Makes the own segment, of which no name is left behind whatever happens.
  static std::unique_ptr<SharedSegment> make(int world_size);
  // Attaches another rank's segment; null where it cannot be reached.
  static std::unique_ptr<SharedSegment> attach(const SegmentAddress& address, int world_size);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  const SegmentAddress& address() const { return address_; }
  // All others have attached: the way to it is closed.
  void close_file();
  SharedRing& ring_to(int peer) const;

  // Something has changed that its owner may be waiting for.
  void ring_bell() const;
  std::uint32_t bell() const;
  void announce_sleep(bool sleeps) const;
  // Sleeps until the bell rings after `heard`, or until the time is over.
  void sleep(std::uint32_t heard, std::chrono::milliseconds at_most) const;

  // The owner will write and read no more.
  void mark_closed() const;
  // True once the owner has closed it or its process has died.
  bool is_gone() const;

 private:
  struct Head;
  SharedSegment(void* memory, std::size_t bytes, const SegmentAddress& address);

  Head* head_ = nullptr;
  std::size_t bytes_ = 0;
  SegmentAddress address_;
};

}  // namespace zeroshard
