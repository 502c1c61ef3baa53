// One end of a control connection: whole frames in, whole frames out, and when it last spoke.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "zeroshard/comm/control_frame.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard {

class ControlPeer {
 public:
  using Clock = std::chrono::steady_clock;

  ControlPeer(Socket socket, std::uint64_t token) : socket_(std::move(socket)), token_(token) {}

  // Sent now or, where the other side does not read, with the next frame.
  void send(ControlFrame frame);
  // The next frame that is here in full.
  std::optional<ControlFrame> receive();

  bool open() const { return socket_.open(); }
  int descriptor() const { return socket_.descriptor(); }
  void close() { socket_.close(); }
  std::chrono::milliseconds silent_for() const;

  int rank = -1;              // until its hello
  bool said_goodbye = false;  // its end is no loss
  int pings_unanswered = 0;
  RankStatus status = {};

 private:
  void flush();

  Socket socket_;
  std::uint64_t token_;
  std::vector<std::byte> outgoing_;
  std::array<std::byte, sizeof(ControlFrame)> incoming_ = {};
  std::size_t incoming_bytes_ = 0;
  Clock::time_point heard_at_ = Clock::now();
};

}  // namespace zeroshard
