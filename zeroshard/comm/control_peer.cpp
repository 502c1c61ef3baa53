#include "zeroshard/comm/control_peer.h"

#include <cstring>

namespace zeroshard {

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
