#include "zeroshard/tier/state_memory.h"

#include <algorithm>
#include <utility>

#include "zeroshard/base/check.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard {
namespace {

std::size_t at(Category category) { return static_cast<std::size_t>(category); }
std::size_t at(Tier tier) { return static_cast<std::size_t>(tier); }

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

StateBuffer::StateBuffer(Buffer buffer, Category category, Tier tier,
                         std::shared_ptr<MemoryLedger> ledger)
    : buffer_(std::move(buffer)), category_(category), tier_(tier), ledger_(std::move(ledger)) {
  ledger_->add(category_, tier_, buffer_.bytes());
}

StateBuffer& StateBuffer::operator=(StateBuffer&& other) noexcept {
  if (this == &other) return *this;
  forget();
  buffer_ = std::move(other.buffer_);
  category_ = other.category_;
  tier_ = other.tier_;
  ledger_ = std::move(other.ledger_);
  return *this;
}

void StateBuffer::forget() noexcept {
  if (ledger_ != nullptr) ledger_->add(category_, tier_, -buffer_.bytes());
  ledger_ = nullptr;
}

StateBuffer StateMemory::allocate(Category category, Tier tier, std::int64_t bytes) {
  ZS_CHECK(tier == Tier::device, "states of the other tiers come with offload");
  const std::int64_t rounded = checked_round_up(bytes, kBufferAlignmentBytes);
  return {Buffer(device_, rounded), category, tier, ledger_};
}

}  // namespace zeroshard
