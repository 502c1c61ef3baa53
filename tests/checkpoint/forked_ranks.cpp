#include "tests/checkpoint/forked_ranks.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/comm/call.h"

namespace zeroshard {
namespace {

// Rank 0 has a socket to each of the others, and they have one to it.
class SocketCommunicator final : public QueuedCommunicator {
 public:
  using Sockets = std::vector<int>;

  SocketCommunicator(int rank, int world_size, Sockets sockets, std::vector<Sockets> of_siblings)
      : rank_(rank),
        world_size_(world_size),
        sockets_(std::move(sockets)),
        of_siblings_(std::move(of_siblings)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  std::unique_ptr<Communicator> make_sibling() override {
    if (of_siblings_.empty()) throw StateError({.what = "these ranks have no more siblings"});
    Sockets sockets = std::move(of_siblings_.back());
    of_siblings_.pop_back();
    return std::make_unique<SocketCommunicator>(rank_, world_size_, std::move(sockets),
                                                std::vector<Sockets>());
  }

 private:
  void submit(Call call) override {
    try {
      ZS_CHECK(call.tag.operation == Operation::all_gather, "these ranks only gather");
      for (const GatherPair& pair : call.gathers) gather(pair);
      call.completion->finish();
    } catch (...) {
      call.completion->finish(std::current_exception());
    }
  }

  void gather(const GatherPair& pair) {
    const auto bytes = static_cast<std::size_t>(pair.in.bytes());
    auto* const all = static_cast<char*>(pair.out.data);
    if (rank_ != 0) {
      send(sockets_[0], pair.in.data, bytes);
      return receive(sockets_[0], all, bytes * static_cast<std::size_t>(world_size_));
    }
    std::memcpy(all, pair.in.data, bytes);
    for (std::size_t i = 0; i < sockets_.size(); ++i)
      receive(sockets_[i], all + (i + 1) * bytes, bytes);
    for (const int socket : sockets_)
      send(socket, all, bytes * static_cast<std::size_t>(world_size_));
  }

  static void send(int socket, const void* data, std::size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
      if (sent <= 0) throw CommError({.what = "a rank is gone"});
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
  }

  static void receive(int socket, char* at, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t got = ::recv(socket, at, bytes, 0);
      if (got <= 0) throw CommError({.what = "a rank is gone"});
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
  }

  const int rank_;
  const int world_size_;
  const Sockets sockets_;
  std::vector<Sockets> of_siblings_;
};

// By peer of rank 0's: its end, and the peer's.
using Pairs = std::vector<std::array<int, 2>>;

std::vector<int> sockets_of(int rank, int ranks, const Pairs& pairs) {
  std::vector<int> sockets;
  for (int peer = 1; peer < ranks; ++peer) {
    const auto& [first, other] = pairs[static_cast<std::size_t>(peer)];
    // What is not this rank's is closed, so that it sees the end of its peer.
    if (rank == 0) sockets.push_back(first);
    if (rank != 0) ::close(first);
    if (rank == peer) sockets.push_back(other);
    if (rank != peer) ::close(other);
  }
  return sockets;
}

[[noreturn]] void be_rank(int rank, int ranks, const std::array<Pairs, 2>& channels,
                          const std::function<void(Communicator&)>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<int> own = sockets_of(rank, ranks, channels[0]);
  std::vector<int> of_sibling = sockets_of(rank, ranks, channels[1]);
  try {
    const RankScope scope(rank);
    SocketCommunicator comm(rank, ranks, std::move(own), {std::move(of_sibling)});
    body(comm);
  } catch (const CommError&) {
    ::_exit(1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

ForkedRanks::ForkedRanks(int ranks, const std::function<void(Communicator&)>& body) {
  std::array<Pairs, 2> channels;  // one of them for a sibling
  for (Pairs& pairs : channels) {
    pairs.resize(static_cast<std::size_t>(ranks));
    for (std::size_t peer = 1; peer < pairs.size(); ++peer) {
      ZS_CHECK_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[peer].data()), 0);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) be_rank(rank, ranks, channels, body);
    processes_.push_back(process);
  }
  for (const Pairs& pairs : channels) {
    for (std::size_t peer = 1; peer < pairs.size(); ++peer) {
      for (const int socket : pairs[peer]) ::close(socket);
    }
  }
}

ForkedRanks::~ForkedRanks() {
  for (const pid_t process : processes_) {
    if (process > 0) ::kill(process, SIGKILL);
  }
  wait();
}

void ForkedRanks::kill(int rank) {
  pid_t& process = processes_.at(static_cast<std::size_t>(rank));
  if (process == 0) return;
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  process = 0;
}

bool ForkedRanks::wait() {
  bool all_well = true;
  for (pid_t& process : processes_) {
    int status = 0;
    if (process == 0) continue;
    ::waitpid(process, &status, 0);
    process = 0;
    all_well = all_well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return all_well;
}

}  // namespace zeroshard
