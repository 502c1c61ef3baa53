// All states are allocated here, and a ledger counts what is held: bytes by category and tier.
//
//   StateMemory memory(device);
//   StateBuffer master = memory.allocate(Category::master, Tier::device, bytes);
//   memory.ledger().bytes(Category::master, Tier::device);
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "zeroshard/device/buffer.h"
#include "zeroshard/layout/category.h"
#include "zeroshard/tier/options.h"

namespace zeroshard {

// It counts what is allocated, to the byte, now and at most. Any thread may read it.
class MemoryLedger {
 public:
  void add(Category category, Tier tier, std::int64_t bytes);

  std::int64_t bytes(Category category, Tier tier) const;
  std::int64_t peak(Category category, Tier tier) const;
  std::int64_t total(Tier tier) const;
  std::int64_t peak_total(Tier tier) const;
  void forget_peaks();  // they count from what is held now

 private:
  static constexpr std::size_t kTiers = 3;
  struct Account {
    std::int64_t now = 0;
    std::int64_t peak = 0;
    void add(std::int64_t bytes);
  };

  mutable std::mutex mutex_;
  std::array<std::array<Account, kTiers>, kCategories.size()> accounts_{};
  std::array<Account, kTiers> totals_{};
};

// The memory of one state. It can be moved, and the ledger hears of its end.
class StateBuffer {
 public:
  StateBuffer() = default;
  StateBuffer(Buffer buffer, Category category, Tier tier, std::shared_ptr<MemoryLedger> ledger);
  ~StateBuffer() { forget(); }
  StateBuffer(StateBuffer&& other) noexcept = default;
  StateBuffer& operator=(StateBuffer&& other) noexcept;

  void* data() const { return buffer_.data(); }
  std::int64_t bytes() const { return buffer_.bytes(); }
  Device device() const { return buffer_.device(); }
  Tier tier() const { return tier_; }
  explicit operator bool() const { return ledger_ != nullptr; }

  // Who reads or writes the state says so, as buffer.h tells.
  void before_read(const Stream& stream) const { buffer_.before_read(stream); }
  void before_write(const Stream& stream) const { buffer_.before_write(stream); }
  void wrote(const Stream& stream) { buffer_.wrote(stream); }
  void read(const Stream& stream) { buffer_.read(stream); }

 private:
  void forget() noexcept;

  Buffer buffer_;
  Category category_ = Category::parameters;
  Tier tier_ = Tier::device;
  std::shared_ptr<MemoryLedger> ledger_;
};

class StateMemory {
 public:
  explicit StateMemory(Device device)
      : device_(device), ledger_(std::make_shared<MemoryLedger>()) {}

  Device device() const { return device_; }
  // The bytes are rounded up to whole buffers (256 bytes), as the planner counts. Throws
  // StorageError.
  StateBuffer allocate(Category category, Tier tier, std::int64_t bytes);
  MemoryLedger& ledger() const { return *ledger_; }

 private:
  Device device_;
  std::shared_ptr<MemoryLedger> ledger_;
};

}  // namespace zeroshard
