// TCP as the control channel needs it: a few small messages, and the end of a peer noticed at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace zeroshard {

// Owns a descriptor; an empty one is closed. Forked children do not have it: they would keep the
// connection open after their parent's end, which nobody would notice then.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor);
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  // Port 0 stands for any that is free. Throws CommError.
  static Socket listen(int port, bool this_host_only);
  // The socket is empty where nobody answers in time.
  static Socket connect(const std::string& address, int port, std::chrono::milliseconds limit);

  // The socket is empty where nobody is waiting to be accepted. Never blocks.
  Socket accept() const;
  void close();

  bool open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  int port() const;

  enum class Outcome { moved, nothing, closed };
  struct Transfer {
    Outcome outcome;
    std::size_t bytes = 0;
  };
  // Neither blocks, and neither raises SIGPIPE.
  Transfer send(const void* data, std::size_t bytes) const;
  Transfer receive(void* data, std::size_t bytes) const;

 private:
  int descriptor_ = -1;
};

// The addresses at which other hosts may reach this one, as numbers; IPv4 only, and
// without loopback.
std::vector<std::string> own_addresses();

}  // namespace zeroshard
