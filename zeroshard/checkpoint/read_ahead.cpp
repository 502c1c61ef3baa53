#include "zeroshard/checkpoint/read_ahead.h"

#include <utility>

namespace zeroshard {

ReadAhead::ReadAhead(PathOf path_of, std::vector<ReadPlace> places, ReadMemory memory,
                     bool past_cache)
    : path_of_(std::move(path_of)),
      places_(std::move(places)),
      memory_(std::move(memory)),
      past_cache_(past_cache) {
  if (memory_.slots.size() > 1 && places_.size() > 1) {
    thread_ = std::thread([this] { read_all(); });
  }
}

ReadAhead::~ReadAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const std::byte* ReadAhead::next() {
  if (given_ == places_.size()) return nullptr;
  const std::size_t number = given_++;
  if (thread_.joinable()) return wait_for(number);
  read(places_[number], memory_.slots.front());
  return memory_.slots.front();
}

const std::byte* ReadAhead::wait_for(std::size_t number) {
  {
    const std::lock_guard lock(mutex_);
    freed_ = number;  // all before it
  }
  changed_.notify_all();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return read_ > number || error_; });
  if (read_ <= number) std::rethrow_exception(error_);
  return memory_.slots[number % memory_.slots.size()];
}

void ReadAhead::read_all() {
  for (std::size_t number = 0; number < places_.size(); ++number) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || number < freed_ + memory_.slots.size(); });
      if (ending_) return;
    }
    std::exception_ptr error;
    try {
      read(places_[number], memory_.slots[number % memory_.slots.size()]);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      if (!error) ++read_;
    }
    changed_.notify_all();
    if (error) return;
  }
}

void ReadAhead::read(const ReadPlace& place, std::byte* into) {
  if (!file_ || file_number_ != place.file) {
    file_.reset();
    const std::filesystem::path path = path_of_(place.file);
    file_.emplace(past_cache_ ? File::open_to_read_directly(path) : File::open_to_read(path));
    file_->expect_reads_in_order();
    file_number_ = place.file;
  }
  file_->read_block(place.begin, {into, place.bytes});
}

}  // namespace zeroshard
