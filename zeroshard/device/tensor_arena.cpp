#include "zeroshard/device/tensor_arena.h"

#include <algorithm>
#include <iterator>

#include <sys/mman.h>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kAlignment = 64;     // as torch has it
constexpr std::int64_t kPage = 2 << 20;     // a huge one
constexpr std::int64_t kGrowth = 64 << 20;  // addresses that become usable at once

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Addresses that begin at a huge page, or null.
std::byte* reserve(std::int64_t bytes) {
  void* const mapped = mmap(nullptr, static_cast<std::size_t>(bytes + kPage), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t skipped = (kPage - address % kPage) % kPage;
  return static_cast<std::byte*>(mapped) + skipped;
}

}  // namespace

TensorArena::TensorArena(std::int64_t most_bytes) : begin_(reserve(most_bytes)) {
  if (begin_ != nullptr) most_ = most_bytes;
}

TensorArena::~TensorArena() {
  if (begin_ != nullptr) munmap(begin_, static_cast<std::size_t>(most_));
}

void* TensorArena::take(std::int64_t bytes) {
  ZS_CHECK_GT(bytes, 0, "bytes of a tensor");
  const std::int64_t rounded = rounded_up(bytes, kAlignment);
  const std::lock_guard lock(mutex_);
  const auto fitting = sizes_.lower_bound({rounded, 0});
  std::int64_t begin = top_;
  if (fitting != sizes_.end()) {
    const auto [length, at] = *fitting;
    begin = at;
    remove_gap(gaps_.find(at));
    if (length > rounded) add_gap(begin + rounded, length - rounded);
  } else {
    const auto last = gaps_.empty() ? gaps_.end() : std::prev(gaps_.end());
    const bool ends_in_gap = last != gaps_.end() && last->first + last->second == top_;
    if (ends_in_gap) begin = last->first;
    if (!grow(begin + rounded)) return nullptr;
    if (ends_in_gap) remove_gap(last);
    top_ = begin + rounded;
  }
  taken_[begin] = rounded;
  return begin_ + begin;
}

void TensorArena::give_back(void* data) {
  const std::lock_guard lock(mutex_);
  const auto piece = taken_.find(static_cast<std::byte*>(data) - begin_);
  ZS_CHECK(piece != taken_.end(), "a tensor's memory was given back twice");
  std::int64_t begin = piece->first, bytes = piece->second;
  taken_.erase(piece);
  const auto next = gaps_.lower_bound(begin);
  if (next != gaps_.end() && next->first == begin + bytes) {
    bytes += next->second;
    remove_gap(next);
  }
  const auto behind = gaps_.lower_bound(begin);
  if (behind != gaps_.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      remove_gap(before);
    }
  }
  add_gap(begin, bytes);
}

std::int64_t TensorArena::bytes_of(const void* data) const {
  const std::lock_guard lock(mutex_);
  const auto piece = taken_.find(static_cast<const std::byte*>(data) - begin_);
  ZS_CHECK(piece != taken_.end(), "this memory is nobody's");
  return piece->second;
}

void TensorArena::trim() {
  constexpr std::int64_t kSmallPage = 4096;
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, bytes] : gaps_) {
    const std::int64_t first = rounded_up(begin, kSmallPage);
    const std::int64_t end = (begin + bytes) / kSmallPage * kSmallPage;
    if (first < end) madvise(begin_ + first, static_cast<std::size_t>(end - first), MADV_DONTNEED);
  }
}

std::int64_t TensorArena::extent() const {
  const std::lock_guard lock(mutex_);
  return top_;
}

// Without the right to write there they are no more than addresses, which no limit on memory
// counts.
bool TensorArena::grow(std::int64_t end) {
  if (end > most_) return false;
  if (end <= usable_) return true;
  const std::int64_t usable = std::min(most_, rounded_up(end, kGrowth));
  const auto more = static_cast<std::size_t>(usable - usable_);
  if (mprotect(begin_ + usable_, more, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(begin_ + usable_, more, MADV_HUGEPAGE);  // a wish
  usable_ = usable;
  return true;
}

void TensorArena::add_gap(std::int64_t begin, std::int64_t bytes) {
  gaps_.emplace(begin, bytes);
  sizes_.emplace(bytes, begin);
}

void TensorArena::remove_gap(Gaps::iterator gap) {
  sizes_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

}  // namespace zeroshard
