// What travels on the control channel, frames of one size, and one end of a connection that carries
// them: whole frames in, whole frames out, and when the other end last spoke.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zeroshard/comm/operation.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard {

// What a rank is doing, or did last.
struct RankStatus {
  OperationTag tag = {};
  int lane = 0;            // the order that the tag's number counts in
  bool under_way = false;  // else it has ended
  bool any = false;        // whether there was an operation at all
};

enum class FrameKind : std::uint32_t {
  hello,    // the first one, from a rank to rank 0
  ping,     // rank 0 asks for a status
  status,   // the answer; `rank` is who it is about
  ask,      // a rank asks for everybody's status
  report,   // the answer, one for each rank, the last one marked; `silent_ms` since it spoke
  gone,     // `rank` is gone
  failed,   // `rank` has ended with an error
  goodbye,  // `rank` has come to the end of its program, and all is well
};

// Ranks of one job run one build, on machines of one kind: the struct is its own encoding.
struct ControlFrame {
  std::uint64_t token = 0;  // the job's, so that a stranger's bytes are noticed
  FrameKind kind = FrameKind::ping;
  std::int32_t rank = 0;
  std::uint64_t sequence = 0;
  std::int64_t bytes = 0;
  std::uint32_t operation = 0;
  std::uint32_t silent_ms = 0;
  std::uint8_t under_way = 0;
  std::uint8_t any = 0;
  std::uint8_t last_report = 0;
  std::uint8_t label_bytes = 0;
  std::uint8_t lane = 0;
  std::array<char, 211> label = {};
};
static_assert(sizeof(ControlFrame) == 256);

// Makes a frame of this kind that tells `status`.
ControlFrame frame_of(FrameKind kind, int rank, const RankStatus& status);
RankStatus status_in(const ControlFrame& frame);

// `in all_gather "block.3" (operation 17), 64 MiB`, `after ...`, `before its first operation`
std::string describe(const RankStatus& status);

class ControlPeer {
 public:
  using Clock = std::chrono::steady_clock;

  ControlPeer(Socket socket, std::uint64_t token) : socket_(std::move(socket)), token_(token) {}

  // The frame is sent now or, where the other side does not read, with the next one.
  void send(ControlFrame frame);
  // Takes the next frame that is here in full.
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
