#include "zeroshard/tier/copy_stream.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

namespace zeroshard {
namespace {

// The end of copies that a thread still has to issue. It sets `last` before `issued` is reached.
class LatePoint final : public StreamPoint {
 public:
  LatePoint(PointPtr issued, std::shared_ptr<const Event> last)
      : issued_(std::move(issued)), last_(std::move(last)) {}

  bool done() const override { return issued_->done() && last_->done(); }
  void block() const override {
    issued_->block();
    if (last_->point() != nullptr) last_->point()->block();
  }
  std::shared_ptr<StreamFailure> failure() const override {
    if (auto failure = issued_->failure()) return failure;
    return last_->point() != nullptr ? last_->point()->failure() : nullptr;
  }
  PointPtr point_on_device() const override {
    issued_->synchronize();
    return last_->point();
  }

 private:
  const PointPtr issued_;
  const std::shared_ptr<const Event> last_;
};

// Some of it may be under way although the rest failed: then it must be over before anybody hears.
void quiet(const Stream& stream) noexcept {
  try {
    stream.synchronize();
  } catch (...) {  // the first error is being reported already
  }
}

Event now_of(const Stream& stream) {
  Event event;
  event.record(stream);
  return event;
}

}  // namespace

CopyStream::CopyStream(Device device, StagingRing* ring)
    : device_(device), ring_(ring), side_(Stream::make(device)) {}

CopyStream::~CopyStream() {
  thread_.reset();
  lander_.reset();
  if (device_ != kCpu) quiet(side_);  // the CPU's ends with its thread, and reports what failed
}

Event CopyStream::down(std::vector<TierCopy> copies, const Stream& producer) {
  return start({Direction::down, std::move(copies), now_of(producer)},
               producer.device() == device_);
}

Event CopyStream::up(std::vector<TierCopy> copies, const Stream& producer) {
  return start({Direction::up, std::move(copies), now_of(producer)}, producer.device() == device_);
}

Event CopyStream::down(std::vector<TierCopy> copies, const Event& behind) {
  return start({Direction::down, std::move(copies), behind}, device_ == kCpu);
}

Event CopyStream::up(std::vector<TierCopy> copies, const Event& behind) {
  return start({Direction::up, std::move(copies), behind}, device_ == kCpu);
}

bool CopyStream::needs_thread(const Request& request, bool behind_own_device) const {
  if (!last_issued_.done()) return true;
  if (!behind_own_device && !request.behind.done()) return true;
  const auto unpinned = [](const TierCopy& copy) { return !copy.pinned; };
  return uses_ring(request) || (device_ != kCpu && std::ranges::any_of(request.copies, unpinned));
}

bool CopyStream::uses_ring(const Request& request) const {
  return std::ranges::any_of(request.copies,
                             [&](const TierCopy& copy) { return goes_through_ring(copy); });
}

Event CopyStream::start(Request request, bool behind_own_device) {
  return needs_thread(request, behind_own_device) ? start_later(std::move(request))
                                                  : copy_all(request);
}

Event CopyStream::start_later(Request request) {
  if (!thread_) thread_ = Stream::make(kCpu);
  const auto last = std::make_shared<Event>();
  thread_->run([this, last, request = std::move(request)] { *last = copy(request); });
  last_issued_.record(*thread_);
  return Event(std::make_shared<LatePoint>(last_issued_.point(), last));
}

Event CopyStream::copy(const Request& request) {
  try {
    return copy_all(request);
  } catch (...) {
    quiet(side_);
    if (lander_) quiet(*lander_);
    throw;
  }
}

// The last copy's end is behind those before it: they are on the same streams, and all that the
// lander was given came down on the side stream.
Event CopyStream::copy_all(const Request& request) {
  side_.wait(request.behind);
  // Nobody holds a slot while he waits for something that may itself need one. A thread that reads
  // host memory must wait, anyway.
  if (uses_ring(request)) now_of(side_).synchronize();
  Event landed;
  for (const TierCopy& copy : request.copies) {
    if (copy.bytes == 0) continue;
    if (!goes_through_ring(copy)) {
      copy_straight(request.direction, copy);
      continue;
    }
    const Event end = copy_through_ring(request.direction, copy);
    if (request.direction == Direction::down) landed = end;
  }
  if (landed.point() == nullptr) return now_of(side_);
  lander_->wait(now_of(side_));
  return now_of(*lander_);
}

void CopyStream::copy_straight(Direction direction, const TierCopy& copy) {
  const bool down = direction == Direction::down;
  copy_bytes(side_, copy.to, down ? kCpu : device_, copy.from, down ? device_ : kCpu, copy.bytes);
}

Event CopyStream::copy_through_ring(Direction direction, const TierCopy& copy) {
  Event end;
  for (std::int64_t begin = 0; begin < copy.bytes; begin += ring_->slot_bytes()) {
    const TierCopy part{static_cast<std::byte*>(copy.to) + begin,
                        static_cast<const std::byte*>(copy.from) + begin,
                        std::min(ring_->slot_bytes(), copy.bytes - begin)};
    end = direction == Direction::down ? bring_down(part) : bring_up(part);
  }
  return end;
}

Event CopyStream::bring_down(const TierCopy& part) {
  if (!lander_) lander_ = Stream::make(kCpu);
  StagingRing::Slot slot = ring_->take();
  std::byte* const data = slot.data();
  copy_bytes(side_, data, kCpu, part.from, device_, part.bytes);
  lander_->wait(now_of(side_));
  lander_->run([data, part] { std::memcpy(part.to, data, static_cast<std::size_t>(part.bytes)); });
  Event emptied = now_of(*lander_);
  slot.used_until(emptied);
  return emptied;
}

Event CopyStream::bring_up(const TierCopy& part) {
  StagingRing::Slot slot = ring_->take();
  std::memcpy(slot.data(), part.from, static_cast<std::size_t>(part.bytes));
  copy_bytes(side_, part.to, device_, slot.data(), kCpu, part.bytes);
  Event sent = now_of(side_);
  slot.used_until(sent);
  return sent;
}

void CopyStream::synchronize() {
  std::exception_ptr first;
  const auto wait_for = [&](const std::optional<Stream>& stream) {
    try {
      if (stream) stream->synchronize();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  wait_for(thread_);  // it gives work to the others, and makes the lander
  wait_for(side_);
  wait_for(lander_);
  if (first) std::rethrow_exception(first);
}

}  // namespace zeroshard
