#include "zeroshard/checkpoint/read_ahead.h"

#include <algorithm>
#include <utility>

namespace zeroshard {

ReadAhead::ReadAhead(PathOf path_of, std::vector<ReadPlace> places, ReadMemory memory,
                     bool past_cache)
    : path_of_(std::move(path_of)),
      places_(std::move(places)),
      memory_(std::move(memory)),
      past_cache_(past_cache),
      read_(places_.size()),
      errors_(places_.size()) {
  const std::size_t threads = std::min(memory_.slots.size(), places_.size());
  for (std::size_t i = 0; threads > 1 && i < threads; ++i) {
    threads_.emplace_back([this] { read_some(); });
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

const std::byte* ReadAhead::next() {
  if (given_ == places_.size()) return nullptr;
  const std::size_t number = given_++;
  if (!threads_.empty()) return wait_for(number);
  read(reader_, number);
  return memory_.slots[number % memory_.slots.size()];
}

const std::byte* ReadAhead::wait_for(std::size_t number) {
  {
    const std::lock_guard lock(mutex_);
    freed_ = number;  // all before it
  }
  changed_.notify_all();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return read_[number] || errors_[number]; });
  if (errors_[number]) std::rethrow_exception(errors_[number]);
  return memory_.slots[number % memory_.slots.size()];
}

// The next one whose slot is free; nothing when all are taken, or nobody wants them any more.
std::optional<std::size_t> ReadAhead::take_place() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return ending_ || taken_ == places_.size() || taken_ < freed_ + memory_.slots.size();
  });
  if (ending_ || taken_ == places_.size()) return std::nullopt;
  return taken_++;
}

void ReadAhead::read_some() {
  Reader reader;
  while (const auto number = take_place()) {
    std::exception_ptr error;
    try {
      read(reader, *number);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      errors_[*number] = error;
      read_[*number] = !error;
    }
    changed_.notify_all();
  }
}

void ReadAhead::read(Reader& reader, std::size_t number) const {
  const ReadPlace& place = places_[number];
  if (!reader.file || reader.number != place.file) {
    reader.file.reset();
    const std::filesystem::path path = path_of_(place.file);
    reader.file.emplace(past_cache_ ? File::open_to_read_directly(path) : File::open_to_read(path));
    reader.file->expect_reads_in_order();
    reader.number = place.file;
  }
  std::byte* const into = memory_.slots[number % memory_.slots.size()];
  reader.file->read_block(place.begin, {into, place.bytes});
}

}  // namespace zeroshard
