#include "zeroshard/comm/control_frame.h"

#include <algorithm>
#include <cstring>

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

void ControlPeer::send(ControlFrame frame) {
  if (!open()) return;
  frame.token = token_;
  const auto* bytes = reinterpret_cast<const std::byte*>(&frame);
  outgoing_.insert(outgoing_.end(), bytes, bytes + sizeof(frame));
  flush();
}

void ControlPeer::flush() {
  while (!outgoing_.empty()) {
    const Socket::Transfer sent = socket_.send(outgoing_.data(), outgoing_.size());
    // A closed connection is noticed where it is read from: there may be last words in it.
    if (sent.outcome != Socket::Outcome::moved) return;
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(sent.bytes));
  }
}

std::optional<ControlFrame> ControlPeer::receive() {
  while (open()) {
    const Socket::Transfer got =
        socket_.receive(incoming_.data() + incoming_bytes_, incoming_.size() - incoming_bytes_);
    if (got.outcome == Socket::Outcome::nothing) return std::nullopt;
    if (got.outcome == Socket::Outcome::closed) {
      close();
      return std::nullopt;
    }
    incoming_bytes_ += got.bytes;
    if (incoming_bytes_ < incoming_.size()) continue;
    incoming_bytes_ = 0;
    heard_at_ = Clock::now();
    ControlFrame frame;
    std::memcpy(&frame, incoming_.data(), sizeof(frame));
    if (frame.token == token_) return frame;
    close();
  }
  return std::nullopt;
}

std::chrono::milliseconds ControlPeer::silent_for() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - heard_at_);
}

}  // namespace zeroshard
