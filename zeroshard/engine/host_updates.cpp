#include "zeroshard/engine/host_updates.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "zeroshard/base/check.h"
#include "zeroshard/engine/segment_part.h"
#include "zeroshard/numeric/convert.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {
HostUpdates::HostUpdates(Device device, SlotRing& ring, StateBuffer unsent, ThreadPool& pool,
                         Trace* trace)
    : device_(device),
      ring_(ring),
      unsent_(std::move(unsent)),
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
  for (std::size_t i = 0; i < work.segments.size(); ++i) run_segment(work, i);
}

void HostUpdates::run_segment(const Work& work, std::size_t segment) {
  const SegmentUpdate& of = work.segments[segment];
  if (work.part == Part::send) {
    if (!work.left_out.empty()) {
      update_left_out(*of.options, of.span, of.scalars, work.left_out[segment], pool_);
    }
    return send_masters(of, work.parameters);
  }
  if (work.part == Part::update) return update_alone(of);
  const bool here = of.span.parameter == nullptr || work.parameter_tier == Tier::host;
  here ? update_in_place(of) : update_through_ring(of, work);
}

void HostUpdates::update_in_place(const SegmentUpdate& segment) {
  update_span(*segment.options, segment.span, segment.scalars, pool_);
}

// The kernel writes 16-bit values all the same, and their dtype settles the masters.
void HostUpdates::update_alone(const SegmentUpdate& segment) {
  const UpdateSpan& span = segment.span;
  if (span.parameter_dtype == DType::fp32) {
    up_.synchronize();  // the last values may still be on their way from these masters
    SegmentUpdate whole = segment;
    whole.span.parameter = nullptr;
    return update_in_place(whole);
  }
  const std::int64_t at_once = unsent_.bytes() / bytes_of(span.parameter_dtype);
  ZS_CHECK_GT(at_once, 0, "the plan has no memory for values that are not sent");
  for (std::int64_t begin = 0; begin < span.count; begin += at_once) {
    SegmentUpdate piece = part_of(segment, begin, std::min(at_once, span.count - begin));
    piece.span.parameter = unsent_.data();
    update_in_place(piece);
  }
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

void HostUpdates::update_through_ring(const SegmentUpdate& segment, const Work& work) {
  const UpdateSpan& span = segment.span;
  const std::int64_t at_once = ring_.slot_bytes() / bytes_of(span.parameter_dtype);
  for (std::int64_t begin = 0; begin < span.count; begin += at_once) {
    const SegmentUpdate piece = part_of(segment, begin, std::min(at_once, span.count - begin));
    send_up(piece, piece.span.parameter, work);
  }
}

// The kernel writes the 16-bit values into a slot, and the slot is copied up while the next is
// written. An fp32 parameter's new value is its master.
void HostUpdates::send_up(const SegmentUpdate& piece, void* parameter, const Work& work) {
  UpdateSpan span = piece.span;
  const std::int64_t bytes = span.count * bytes_of(span.parameter_dtype);
  if (span.parameter_dtype == DType::fp32) {
    span.parameter = nullptr;
    update_span(*piece.options, span, piece.scalars, pool_);
    return copy_bytes(up_, parameter, work.parameters, span.master, kCpu, bytes);
  }
  StateBuffer& slot = ring_.next();
  slot.before_write(Stream::current(kCpu));
  span.parameter = slot.data();
  update_span(*piece.options, span, piece.scalars, pool_);
  copy_bytes(up_, parameter, work.parameters, slot.data(), kCpu, bytes);
  slot.read(up_);
}

}  // namespace zeroshard
