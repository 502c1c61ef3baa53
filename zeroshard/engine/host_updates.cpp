#include "zeroshard/engine/host_updates.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "zeroshard/engine/segment_part.h"
#include "zeroshard/numeric/convert.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {
HostUpdates::HostUpdates(Device device, SlotRing& ring, ThreadPool& pool, Trace* trace)
    : device_(device),
      ring_(ring),
      pool_(pool),
      trace_(trace),
      up_(Stream::make(device)),
      worker_(Stream::make(kCpu)) {}

void HostUpdates::begin_step() { old_values_read_.record(Stream::current(device_)); }

Handle HostUpdates::update(Work work) {
  auto completion = std::make_shared<Completion>();
  worker_.run([this, completion, read = old_values_read_, work = std::move(work)] {
    try {
      up_.wait(read);
      work.when_may_begin();
      run(work);
      Event sent;
      sent.record(up_);
      completion->finish_behind(sent);
    } catch (...) {
      completion->finish(std::current_exception());
    }
  });
  return Handle(completion);
}

void HostUpdates::run(const Work& work) {
  const Trace::Scope scope(trace_, Lane::optimizer, "update", work.unit);
  for (std::size_t i = 0; i < work.updated.size(); ++i) {
    const SegmentUpdate& segment = work.segments[i];
    update_left_out(*segment.options, segment.span, segment.scalars, work.updated[i], pool_);
    send_masters(segment, work.parameters);
  }
  if (!work.updated.empty()) return;
  for (const SegmentUpdate& segment : work.segments) {
    const bool here = segment.span.parameter == nullptr || work.parameter_tier == Tier::host;
    here ? update_in_place(segment) : update_through_ring(segment, work.parameters);
  }
}

void HostUpdates::update_in_place(const SegmentUpdate& segment) {
  update_span(*segment.options, segment.span, segment.scalars, pool_);
}

// The kernels' rounding: masters are settled, so ties go where an update puts them.
void HostUpdates::send_masters(const SegmentUpdate& segment, Device parameters) {
  const UpdateSpan& span = segment.span;
  const std::int64_t at_once = ring_.slot_bytes() / bytes_of(span.parameter_dtype);
  for (std::int64_t begin = 0; begin < span.count; begin += at_once) {
    const UpdateSpan piece = part_of(span, begin, std::min(at_once, span.count - begin));
    const std::int64_t bytes = piece.count * bytes_of(piece.parameter_dtype);
    if (piece.parameter_dtype == DType::fp32) {
      copy_bytes(up_, piece.parameter, parameters, piece.master, kCpu, bytes);
      continue;
    }
    StateBuffer& slot = ring_.next();
    slot.before_write(Stream::current(kCpu));
    convert({slot.data(), piece.parameter_dtype}, {piece.master, DType::fp32}, piece.count, pool_);
    copy_bytes(up_, piece.parameter, parameters, slot.data(), kCpu, bytes);
    slot.read(up_);
  }
}

void HostUpdates::update_through_ring(const SegmentUpdate& segment, Device parameters) {
  const UpdateSpan& span = segment.span;
  const std::int64_t at_once = ring_.slot_bytes() / bytes_of(span.parameter_dtype);
  for (std::int64_t begin = 0; begin < span.count; begin += at_once) {
    const SegmentUpdate piece = part_of(segment, begin, std::min(at_once, span.count - begin));
    send_up(piece, piece.span.parameter, parameters);
  }
}

// The kernel writes the 16-bit values into a slot, and the slot is copied up while the next is
// written. An fp32 parameter's new value is its master.
void HostUpdates::send_up(const SegmentUpdate& piece, void* parameter, Device parameters) {
  UpdateSpan span = piece.span;
  const std::int64_t bytes = span.count * bytes_of(span.parameter_dtype);
  if (span.parameter_dtype == DType::fp32) {
    span.parameter = nullptr;
    update_span(*piece.options, span, piece.scalars, pool_);
    return copy_bytes(up_, parameter, parameters, span.master, kCpu, bytes);
  }
  StateBuffer& slot = ring_.next();
  slot.before_write(Stream::current(kCpu));
  span.parameter = slot.data();
  update_span(*piece.options, span, piece.scalars, pool_);
  copy_bytes(up_, parameter, parameters, slot.data(), kCpu, bytes);
  slot.read(up_);
}

}  // namespace zeroshard
