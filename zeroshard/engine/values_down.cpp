#include "zeroshard/engine/values_down.h"

#include <algorithm>

#include "zeroshard/engine/segment_part.h"

namespace zeroshard {

ValuesDown::ValuesDown(const Ring& ring, StateMemory& memory, ThreadPool& pool)
    : device_(memory.device()),
      pool_(pool),
      ring_(ring, Tier::device, memory),
      down_(Stream::make(device_)) {}

Handle ValuesDown::update(const std::vector<SegmentUpdate>& segments) {
  for (const SegmentUpdate& segment : segments) update(segment);
  Event copied;
  copied.record(down_);
  const auto completion = std::make_shared<Completion>();
  completion->finish_behind(copied);
  return Handle(completion);
}

void ValuesDown::update(const SegmentUpdate& segment) {
  const UpdateSpan& span = segment.span;
  const std::int64_t at_once = ring_.slot_bytes() / bytes_of(span.parameter_dtype);
  for (std::int64_t begin = 0; begin < span.count; begin += at_once) {
    SegmentUpdate piece = part_of(segment, begin, std::min(at_once, span.count - begin));
    void* const parameter = piece.span.parameter;
    const std::int64_t bytes = piece.span.count * bytes_of(span.parameter_dtype);
    if (span.parameter_dtype == DType::fp32) {
      piece.span.parameter = nullptr;
      run(piece);
      copy_down(parameter, piece.span.master, bytes);
      continue;
    }
    StateBuffer& slot = ring_.next();
    slot.before_write(Stream::current(device_));
    piece.span.parameter = slot.data();
    run(piece);
    copy_down(parameter, slot.data(), bytes);
    slot.read(down_);
  }
}

void ValuesDown::run(const SegmentUpdate& piece) {
  if (device_ != kCpu) return update_on(device_, {piece});
  update_span(*piece.options, piece.span, piece.scalars, pool_);
}

void ValuesDown::copy_down(void* parameter, const void* values, std::int64_t bytes) {
  Event written;
  written.record(Stream::current(device_));
  down_.wait(written);
  copy_bytes(down_, parameter, kCpu, values, device_, bytes);
}

}  // namespace zeroshard
