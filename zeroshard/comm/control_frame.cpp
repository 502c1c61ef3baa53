#include "zeroshard/comm/control_frame.h"

#include <algorithm>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"

namespace zeroshard {

ControlFrame frame_of(FrameKind kind, int rank, const RankStatus& status) {
  ControlFrame frame;
  frame.kind = kind;
  frame.rank = rank;
  frame.sequence = status.tag.sequence;
  frame.bytes = status.tag.bytes;
  frame.lane = static_cast<std::uint8_t>(status.lane);
  frame.operation = static_cast<std::uint32_t>(status.tag.operation);
  frame.under_way = status.under_way ? 1 : 0;
  frame.any = status.any ? 1 : 0;
  const std::size_t shown = std::min(status.tag.label.size(), frame.label.size());
  frame.label_bytes = static_cast<std::uint8_t>(shown);
  std::copy_n(status.tag.label.begin(), shown, frame.label.begin());
  return frame;
}

RankStatus status_in(const ControlFrame& frame) {
  const std::size_t shown = std::min<std::size_t>(frame.label_bytes, frame.label.size());
  return {.tag = {.sequence = frame.sequence,
                  .operation = static_cast<Operation>(frame.operation),
                  .label = std::string(frame.label.data(), shown),
                  .bytes = frame.bytes},
          .lane = frame.lane,
          .under_way = frame.under_way != 0,
          .any = frame.any != 0};
}

std::string describe(const RankStatus& status) {
  if (!status.any) return "before its first operation";
  return fmt::format("{} {}, {}", status.under_way ? "in" : "after", describe(status.tag),
                     human_bytes(status.tag.bytes));
}

}  // namespace zeroshard
