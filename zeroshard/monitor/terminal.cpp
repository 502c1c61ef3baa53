#include "zeroshard/monitor/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "zeroshard/base/env.h"

namespace zeroshard {
namespace {

std::optional<std::size_t> session_columns() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return std::nullopt;
  const auto columns = usable_columns(terminal);
  ::close(terminal);
  return columns;
}

}  // namespace

std::optional<std::size_t> usable_columns(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col - std::size_t{1};
}

std::function<std::size_t()> columns_behind_pipe() {
  const auto told = env_integer(EnvVar::kTerminalColumns);
  if (!told || *told <= 0) return {};
  const auto at_start = static_cast<std::size_t>(*told);
  return [at_start] { return session_columns().value_or(at_start); };
}

}  // namespace zeroshard
