#include "zeroshard/tier/state_memory.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard {
namespace {

std::size_t at(Category category) { return static_cast<std::size_t>(category); }
std::size_t at(Tier tier) { return static_cast<std::size_t>(tier); }

struct Asked {
  Category category;
  Tier tier;
  std::int64_t bytes;
};

// The tier's own words, and what is held there already, which is what a person can change.
StateMemoryError with_ledger(const StorageError& error, const Asked& asked,
                             const MemoryLedger& ledger) {
  const Fault& fault = error.fault();
  const bool on_device = asked.tier == Tier::device;
  const std::string held = describe(ledger, asked.tier);
  return StateMemoryError(
      {.what = fmt::format("{} while {} of {} were asked for", fault.what, human_bytes(asked.bytes),
                           name_of(asked.category)),
       .value = fmt::format("{}; the states hold {} of {} memory{}", fault.value,
                            human_bytes(ledger.total(asked.tier)), on_device ? "device" : "host",
                            held.empty() ? "" : ":\n" + held.substr(0, held.size() - 1)),
       .remedy = on_device ? "use a smaller micro-batch, checkpoint activations, offload the "
                             "optimizer to the CPU, or use more ranks; `zeroshard plan` counts "
                             "what each takes"
                           : fault.remedy},
      asked.tier, ledger.total(asked.tier), asked.bytes);
}

}  // namespace

void MemoryLedger::Account::add(std::int64_t bytes) {
  now += bytes;
  peak = std::max(peak, now);
}

void MemoryLedger::add(Category category, Tier tier, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  accounts_[at(category)][at(tier)].add(bytes);
  totals_[at(tier)].add(bytes);
}

std::int64_t MemoryLedger::bytes(Category category, Tier tier) const {
  const std::lock_guard lock(mutex_);
  return accounts_[at(category)][at(tier)].now;
}

std::int64_t MemoryLedger::peak(Category category, Tier tier) const {
  const std::lock_guard lock(mutex_);
  return accounts_[at(category)][at(tier)].peak;
}

std::int64_t MemoryLedger::total(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return totals_[at(tier)].now;
}

std::int64_t MemoryLedger::peak_total(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return totals_[at(tier)].peak;
}

void MemoryLedger::forget_peaks() {
  const std::lock_guard lock(mutex_);
  for (auto& of_category : accounts_) {
    for (Account& account : of_category) account.peak = account.now;
  }
  for (Account& account : totals_) account.peak = account.now;
}

std::string describe(const MemoryLedger& ledger, Tier tier) {
  std::string lines;
  for (const Category category : kCategories) {
    const std::int64_t bytes = ledger.bytes(category, tier);
    if (bytes > 0) lines += fmt::format("  {:<10} {}\n", name_of(category), human_bytes(bytes));
  }
  return lines;
}

StateBuffer::StateBuffer(TierBuffer memory, Category category, Tier tier,
                         std::shared_ptr<MemoryLedger> ledger)
    : buffer_(std::move(memory.buffer)),
      category_(category),
      tier_(tier),
      pinned_(memory.pinned),
      ledger_(std::move(ledger)) {
  ledger_->add(category_, tier_, buffer_.bytes());
}

StateBuffer& StateBuffer::operator=(StateBuffer&& other) noexcept {
  if (this == &other) return *this;
  forget();
  buffer_ = std::move(other.buffer_);
  category_ = other.category_;
  tier_ = other.tier_;
  pinned_ = other.pinned_;
  ledger_ = std::move(other.ledger_);
  return *this;
}

void StateBuffer::forget() noexcept {
  if (ledger_ != nullptr) ledger_->add(category_, tier_, -buffer_.bytes());
  ledger_ = nullptr;
}

StateMemory::StateMemory(Device device, HostMemoryOptions host)
    : device_(device),
      on_device_(device),
      host_(device, std::move(host)),
      ledger_(std::make_shared<MemoryLedger>()) {}

TierMemory& StateMemory::at(Tier tier) {
  switch (tier) {
    case Tier::device: return on_device_;
    case Tier::host: return host_;
    case Tier::disk: break;
  }
  throw StorageError({.what = "states cannot lie on a disk yet",
                      .value = "tier \"disk\"",
                      .remedy = "offload to \"cpu\""});
}

template <typename Allocate>
StateBuffer StateMemory::allocate_with(Category category, Tier tier, std::int64_t bytes,
                                       const Allocate& allocate) {
  const std::int64_t rounded = checked_round_up(bytes, kBufferAlignmentBytes);
  try {
    return {allocate(rounded), category, tier, ledger_};
  } catch (const StorageError& error) {
    throw with_ledger(error, {category, tier, rounded}, *ledger_);
  }
}

StateBuffer StateMemory::allocate(Category category, Tier tier, std::int64_t bytes) {
  TierMemory& memory = at(tier);
  return allocate_with(category, tier, bytes,
                       [&](std::int64_t rounded) { return memory.allocate(rounded); });
}

StateBuffer StateMemory::allocate_apart(Category category, Tier tier, std::int64_t bytes,
                                        bool pin) {
  if (tier != Tier::host) return allocate(category, tier, bytes);
  return allocate_with(category, tier, bytes,
                       [&](std::int64_t rounded) { return host_.allocate_apart(rounded, pin); });
}

StateBuffer StateMemory::allocate_ring(std::int64_t bytes) {
  const std::int64_t rounded = checked_round_up(bytes, kBufferAlignmentBytes);
  return {host_.allocate_ring(rounded), Category::buffers, Tier::host, ledger_};
}

void StateMemory::trim_device() { backend_of(device_.kind).trim(device_.index); }

}  // namespace zeroshard
