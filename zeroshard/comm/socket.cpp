#include "zeroshard/comm/socket.h"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr int kBacklog = 1024;  // all ranks may knock at once

// All open descriptors of this process. Never destroyed: sockets may live to the end.
struct Descriptors {
  std::mutex mutex;
  std::set<int> open;

  void close_in_child() {
    for (const int descriptor : open) ::close(descriptor);
    open.clear();
    mutex.unlock();
  }
};

Descriptors& descriptors() {
  static Descriptors* const all = [] {
    pthread_atfork([] { descriptors().mutex.lock(); }, [] { descriptors().mutex.unlock(); },
                   [] { descriptors().close_in_child(); });
    return new Descriptors;
  }();
  return *all;
}

// The kernel asks a silent peer whether it is there: a host that lost its power never closes.
void watch_over(int descriptor) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(descriptor, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 4000);  // the same for what was sent and not acknowledged
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

bool connected_within(int descriptor, std::chrono::milliseconds limit) {
  pollfd wanted{descriptor, POLLOUT, 0};
  if (poll(&wanted, 1, static_cast<int>(limit.count())) <= 0) return false;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0;
}

Socket::Transfer transfer_of(ssize_t result, bool zero_is_end) {
  if (result > 0) return {Socket::Outcome::moved, static_cast<std::size_t>(result)};
  if (result == 0 && zero_is_end) return {Socket::Outcome::closed};
  const bool later = result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return {later || result == 0 ? Socket::Outcome::nothing : Socket::Outcome::closed};
}

std::string text_of(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

}  // namespace

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  if (!open()) return;
  const std::lock_guard lock(descriptors().mutex);
  descriptors().open.insert(descriptor);
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (!open()) return;
  const int descriptor = std::exchange(descriptor_, -1);
  const std::lock_guard lock(descriptors().mutex);
  if (descriptors().open.erase(descriptor) > 0) ::close(descriptor);
}

Socket Socket::listen(int port, bool this_host_only) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(this_host_only ? INADDR_LOOPBACK : INADDR_ANY);
  if (bind(socket.descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket.descriptor_, kBacklog) != 0) {
    throw CommError(
        {.what = "cannot listen for the control channel",
         .value = fmt::format("port {}: {}", port, std::generic_category().message(errno)),
         .remedy = "set ZEROSHARD_CONTROL_PORT to a free port, or unset it"});
  }
  return socket;
}

Socket Socket::connect(const std::string& address, int port, std::chrono::milliseconds limit) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &target.sin_addr) != 1) return {};
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int code =
      ::connect(socket.descriptor_, reinterpret_cast<sockaddr*>(&target), sizeof(target));
  if (code != 0 && errno != EINPROGRESS) return {};
  if (!connected_within(socket.descriptor_, limit)) return {};
  watch_over(socket.descriptor_);
  return socket;
}

Socket Socket::accept() const {
  Socket peer(accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (peer.open()) watch_over(peer.descriptor_);
  return peer;
}

int Socket::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Socket::Transfer Socket::send(const void* data, std::size_t bytes) const {
  return transfer_of(::send(descriptor_, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT), false);
}

Socket::Transfer Socket::receive(void* data, std::size_t bytes) const {
  return transfer_of(::recv(descriptor_, data, bytes, MSG_DONTWAIT), true);
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {"127.0.0.1"};
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const bool up = (each->ifa_flags & IFF_UP) != 0;
    const bool loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    if (up && !loopback) addresses.push_back(text_of(each->ifa_addr));
  }
  freeifaddrs(all);
  return addresses;
}

}  // namespace zeroshard
