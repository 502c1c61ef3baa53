// All states are allocated here, and a ledger counts what is held: bytes by category and tier.
//
//   StateMemory memory(device, {.pin = true});
//   memory.reserve_host(planned);   // what all states of the host tier take together
//   StateBuffer master = memory.allocate(Category::master, Tier::host, bytes);
//   memory.ledger().bytes(Category::master, Tier::host);
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "zeroshard/base/error.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/layout/category.h"
#include "zeroshard/tier/host_tier.h"
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

// What the ledger holds of a tier, a line for each category that has something:
// "  master      1.50 GiB\n".
std::string describe(const MemoryLedger& ledger, Tier tier);

// The memory of one state. It can be moved, and the ledger hears of its end.
class StateBuffer {
 public:
  StateBuffer() = default;
  StateBuffer(TierBuffer memory, Category category, Tier tier,
              std::shared_ptr<MemoryLedger> ledger);
  ~StateBuffer() { forget(); }
  StateBuffer(StateBuffer&& other) noexcept = default;
  StateBuffer& operator=(StateBuffer&& other) noexcept;

  void* data() const { return buffer_.data(); }
  std::int64_t bytes() const { return buffer_.bytes(); }
  Device device() const { return buffer_.device(); }
  Tier tier() const { return tier_; }
  Category category() const { return category_; }
  // Host memory that the device copies from and to without the CPU's help. With the CPU as device
  // it is what the options ask for, so that both ways of copying are tested there.
  bool pinned() const { return pinned_; }
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
  bool pinned_ = false;
  std::shared_ptr<MemoryLedger> ledger_;
};

// Its buffers may outlive it. One thread at a time may allocate.
// A tier could not give what a state needs. The message says what it holds.
class StateMemoryError final : public StorageError {
 public:
  StateMemoryError(Fault fault, Tier where, std::int64_t held, std::int64_t asked)
      : StorageError(std::move(fault)), tier(where), held_bytes(held), asked_bytes(asked) {}

  const Tier tier;
  const std::int64_t held_bytes;  // by states there
  const std::int64_t asked_bytes;
};

class StateMemory {
 public:
  explicit StateMemory(Device device, HostMemoryOptions host = {});

  Device device() const { return device_; }
  // Maps the host tier's arena, once. `bytes` is the sum of what will be allocated there, rings
  // aside; what goes beyond it, or came before, has memory of its own. Throws StorageError
  // where the host has not that much.
  void reserve_host(std::int64_t bytes) { host_.reserve(bytes); }
  // The bytes are rounded up to whole buffers (256 bytes), as the planner counts. The memory is not
  // initialised. Throws StorageError, which says what is held where it was asked for.
  StateBuffer allocate(Category category, Tier tier, std::int64_t bytes);
  // The same beside the host tier's arena, pinned or not as is said: for what comes unplanned.
  StateBuffer allocate_apart(Category category, Tier tier, std::int64_t bytes, bool pin);
  // Throws StorageError where the host has not that much memory.
  void check_host_room(std::int64_t bytes) const { host_.refuse_too_much(bytes); }
  // Host memory for a ring of staging slots: pinned where it can be, whatever the states are.
  StateBuffer allocate_ring(std::int64_t bytes);
  // Gives device memory that no state holds back to the driver, for other processes.
  void trim_device();
  MemoryLedger& ledger() const { return *ledger_; }

 private:
  template <typename Allocate>
  StateBuffer allocate_with(Category category, Tier tier, std::int64_t bytes,
                            const Allocate& allocate);
  TierMemory& at(Tier tier);

  const Device device_;
  DeviceTier on_device_;
  HostTier host_;
  std::shared_ptr<MemoryLedger> ledger_;
};

}  // namespace zeroshard
