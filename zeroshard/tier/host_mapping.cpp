#include "zeroshard/tier/host_mapping.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/thread_pool.h"
#include "zeroshard/device/backend.h"

namespace zeroshard {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

StorageError no_room(std::size_t bytes) {
  const int error = errno;
  return StorageError(
      {.what = "the kernel gives no host memory",
       .value = fmt::format("{} ({})", human_bytes(static_cast<std::int64_t>(bytes)),
                            std::system_category().message(error)),
       .remedy = "see `ulimit -v` and what else runs here, or keep more on the device"});
}

// Large mappings begin at a huge page: before Linux 6.7 the kernel does not see to that itself, and
// the pages at both ends would be small ones. What was mapped too much goes back at once.
std::byte* map_pages(std::size_t bytes) {
  const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* const mapped = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw no_room(bytes);
  auto* const begin = static_cast<std::byte*>(mapped);
  if (slack == 0) return begin;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = rounded_up(address, kHugePage) - address;
  if (before > 0) munmap(begin, before);
  if (slack > before) munmap(begin + before + bytes, slack - before);
  return begin + before;
}

void touch(std::byte* data, std::size_t bytes, int threads) {
  const std::size_t page = page_bytes();
  ThreadPool pool(threads);
  pool.parallel_for(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(kHugePage),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (auto at = static_cast<std::size_t>(begin);
                           at < static_cast<std::size_t>(end); at += page) {
                        *static_cast<volatile std::byte*>(data + at) = std::byte{0};
                      }
                    });
}

}  // namespace

HostMapping::HostMapping(std::int64_t bytes, int threads) : bytes_(bytes) {
  ZS_CHECK_GT(bytes, 0, "bytes of a mapping");
  mapped_ = rounded_up(static_cast<std::size_t>(bytes), page_bytes());
  data_ = map_pages(mapped_);
  // Both are wishes: without them the memory works as well, only slower.
  madvise(data_, mapped_, MADV_HUGEPAGE);
  madvise(data_, mapped_, MADV_DONTFORK);
  touch(data_, mapped_, mapped_ <= kHugePage ? 1 : threads);
}

HostMapping::~HostMapping() {
  if (pinned()) backend_of(pinned_for_.kind).unpin(pinned_for_.index, data_);
  munmap(data_, mapped_);
}

std::string HostMapping::pin(Device accelerator) {
  if (pinned() || accelerator == kCpu) return "";
  std::string why_not = backend_of(accelerator.kind)
                            .pin(accelerator.index, data_, static_cast<std::int64_t>(mapped_));
  if (why_not.empty()) pinned_for_ = accelerator;
  return why_not;
}

}  // namespace zeroshard
