#include "zeroshard/checkpoint/staged_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

// What disks and kernels want of writes past the cache.

constexpr std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

}  // namespace

void SaveStaging::Free::operator()(std::byte* memory) const { std::free(memory); }

SaveStaging::SaveStaging()
    : own_(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, kSaveStagingBytes))),
      memory_(own_.get()) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

StagedFile::StagedFile(const std::filesystem::path& path, std::uint64_t bytes,
                       const SaveStaging& staging)
    : file_(File::open_to_write_directly(path)), bytes_(bytes), staging_(staging) {
  file_.reserve(bytes_);
  writer_ = std::thread([this] { write_slots(); });
}

StagedFile::~StagedFile() { stop(); }

void StagedFile::stop() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

std::span<std::byte> StagedFile::room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || slots_sent_ - slots_written_ < kSaveSlots; });
  if (error_) std::rethrow_exception(error_);
  return std::span(staging_.slot(slots_sent_ % kSaveSlots), kSaveSlotBytes).subspan(in_slot_);
}

void StagedFile::filled(std::size_t bytes) {
  in_slot_ += bytes;
  ZS_CHECK_LE(sent_ + in_slot_, bytes_, "more than the file was to have");
  if (in_slot_ == kSaveSlotBytes) send();
}

// Checksums are taken here, while the slot is in the cache and the disk has the one before.
void StagedFile::send() {
  std::byte* const slot = staging_.slot(slots_sent_ % kSaveSlots);
  for (std::size_t begin = 0; begin < in_slot_; begin += kChunkBytes) {
    const std::size_t bytes = std::min<std::size_t>(kChunkBytes, in_slot_ - begin);
    chunks_.push_back(checksum_of({slot + begin, bytes}));
  }
  std::memset(slot + in_slot_, 0, rounded_up(in_slot_) - in_slot_);
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({.slot = slots_sent_ % kSaveSlots, .offset = sent_, .bytes = in_slot_});
  }
  changed_.notify_all();
  ++slots_sent_;
  sent_ += std::exchange(in_slot_, 0);
}

void StagedFile::write_slots() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Write next = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      write(next);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      error_ = error;
      waiting_.clear();
    }
    ++slots_written_;
    changed_.notify_all();
  }
}

void StagedFile::write(const Write& one) {
  file_.write_at(one.offset, {staging_.slot(one.slot), rounded_up(one.bytes)});
  file_.start_sync(one.offset, one.bytes);
}

StoredFile StagedFile::finish() {
  ZS_CHECK_EQ(sent_ + in_slot_, bytes_, "the file is not complete");
  if (in_slot_ > 0) send();
  stop();
  if (error_) std::rethrow_exception(error_);
  file_.truncate(bytes_);
  file_.sync();
  return {.name = file_.path().filename().string(), .bytes = bytes_, .chunks = std::move(chunks_)};
}

}  // namespace zeroshard
