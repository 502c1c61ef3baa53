#include "zeroshard/device/stream_uses.h"

#include <algorithm>

namespace zeroshard {
namespace {

// More streams than this at one memory are rare: then those that are done are looked for.
constexpr std::size_t kFewStreams = 4;

// Beside the order in which the caller's own work goes.
bool is_side_stream(const Stream& stream) {
  if (stream.device() == kCpu) return !stream.is_calling_thread();
  return stream.id() != Stream::current(stream.device()).id();
}

}  // namespace

const Event& StreamUses::Use::recorded() {
  if (unrecorded) {
    event.record(*unrecorded);
    unrecorded.reset();
  }
  return event;
}

void StreamUses::before_read(const Stream& stream) {
  wait_for_writes(stream);
  note(reads_, stream);
}

// All uses so far come before this one, so that later ones need to wait for this one alone.
void StreamUses::before_write(const Stream& stream) {
  wait_for_all(stream);
  writes_.clear();
  reads_.clear();
  note(writes_, stream);
}

void StreamUses::wait_for_all(const Stream& stream) {
  wait_for(writes_, stream);
  wait_for(reads_, stream);
}

void StreamUses::wrote(const Stream& stream) {
  Use* const use = note(writes_, stream);
  if (use != nullptr && is_side_stream(stream)) use->recorded();
}

void StreamUses::read(const Stream& stream) {
  Use* const use = note(reads_, stream);
  if (use != nullptr && is_side_stream(stream)) use->recorded();
}

// Null for the calling thread, whose work is over when a call returns.
StreamUses::Use* StreamUses::note(Uses& uses, const Stream& stream) {
  if (stream.is_calling_thread()) return nullptr;
  auto use = std::ranges::find_if(uses, [&](const Use& each) { return each.is_by(stream); });
  if (use == uses.end()) {
    if (uses.size() >= kFewStreams) {
      for (Use& each : uses) each.recorded();
      std::erase_if(uses, [](const Use& each) { return each.is_over_and_well(); });
    }
    use = uses.insert(uses.end(), Use{stream.device(), stream.id()});
  }
  if (!use->unrecorded) use->unrecorded = stream;
  return &*use;
}

void StreamUses::wait_for(Uses& uses, const Stream& stream) {
  for (auto use = uses.begin(); use != uses.end();) {
    if (use->is_by(stream)) {
      ++use;
    } else if (use->is_over_and_well()) {
      use = uses.erase(use);
    } else {
      stream.wait(use->recorded());
      ++use;
    }
  }
}

void StreamUses::wait_until_over() noexcept {
  for (Use& use : writes_) wait_until_over(use);
  for (Use& use : reads_) wait_until_over(use);
  writes_.clear();
  reads_.clear();
}

void StreamUses::wait_until_over(Use& use) noexcept {
  try {
    use.recorded().wait_until_over();
  } catch (...) {  // the device itself is broken: nothing is under way on it any more
  }
}

}  // namespace zeroshard
