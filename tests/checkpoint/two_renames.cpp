#include "tests/checkpoint/two_renames.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

bool has_no_exchange = false;
constexpr useconds_t kBetween = 20'000;  // so that a kill comes between the two now and then

}  // namespace

// These are in front of the C library's.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (has_no_exchange && (flags & RENAME_EXCHANGE) != 0) {
    errno = ENOSYS;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  const int result = renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
  if (has_no_exchange && std::strstr(to, ".replaced-") != nullptr) ::usleep(kBetween);
  return result;
}

namespace zeroshard {

void replace_folders_by_two_renames(bool on) { has_no_exchange = on; }

}  // namespace zeroshard
