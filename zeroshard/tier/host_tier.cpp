#include "zeroshard/tier/host_tier.h"

#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/base/memory_room.h"

namespace zeroshard {
namespace {

std::string memlock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return human_bytes(static_cast<std::int64_t>(limit.rlim_cur));
}

constexpr const char* kRaiseMemlock =
    "raise the limit with `ulimit -l unlimited` (in a container: --ulimit memlock=-1), or set "
    "pin_memory to false";

}  // namespace

HostTier::HostTier(Device device, HostMemoryOptions options)
    : device_(device), options_(std::move(options)) {}

int HostTier::threads() const { return options_.threads > 0 ? options_.threads : usable_cpus(); }

void HostTier::refuse_too_much(std::int64_t bytes) const {
  const auto room = memory_room(options_.limits);
  if (!room || bytes <= room->bytes) return;
  throw StorageError(
      {.what = "the host has not enough memory for the states that are offloaded to it",
       .value = fmt::format("{} are needed and {} can be had ({} says so)", human_bytes(bytes),
                            human_bytes(room->bytes), room->set_by),
       .remedy = "offload less (a smaller `ratio`, or a larger `device_budget`), use more ranks or "
                 "hosts, or raise the container's memory limit"});
}

void HostTier::reserve(std::int64_t bytes) {
  ZS_CHECK(reserved_ == nullptr, "host memory is reserved once");
  if (bytes == 0) return;
  refuse_too_much(bytes);
  reserved_ = std::make_shared<Reserved>(bytes, threads());
  reserved_->pinned = options_.pin && pin(reserved_->mapping);
}

bool HostTier::pin(HostMapping& mapping) {
  if (device_ == kCpu) return true;  // the CPU copies from and to all of its memory
  if (pinning_failed_) return false;
  const std::string why_not = mapping.pin(device_);
  if (!why_not.empty()) report_unpinned(mapping.bytes(), why_not);
  return why_not.empty();
}

void HostTier::report_unpinned(std::int64_t bytes, const std::string& why_not) {
  pinning_failed_ = true;
  log_warning(
      "[memory] {} of host memory cannot be pinned for {}: {}; the limit of locked memory is {}; "
      "copies go through small pinned buffers, ours or the driver's, which is slower; {}",
      human_bytes(bytes), name_of(device_), why_not, memlock_limit(), kRaiseMemlock);
}

TierBuffer HostTier::allocate(std::int64_t bytes) {
  if (bytes == 0) return {Buffer::over(kCpu, nullptr, 0), options_.pin};
  const auto begin = reserved_ != nullptr ? reserved_->arena.take(bytes) : std::nullopt;
  if (!begin) {
    return map_alone(bytes, [&](HostMapping& mapping) { return options_.pin && pin(mapping); });
  }
  const auto give_back = [from = reserved_, begin = *begin, bytes](void*) {
    from->arena.give_back(begin, bytes);
  };
  return {Buffer::over(kCpu, {reserved_->mapping.data() + *begin, give_back}, bytes),
          reserved_->pinned};
}

TierBuffer HostTier::allocate_apart(std::int64_t bytes, bool pin_it) {
  if (bytes == 0) return {Buffer::over(kCpu, nullptr, 0), pin_it};
  return map_alone(bytes, [&](HostMapping& mapping) { return pin_it && pin(mapping); });
}

TierBuffer HostTier::map_alone(std::int64_t bytes, const PinMapping& pin_it) {
  refuse_too_much(bytes);
  const auto mapping = std::make_shared<HostMapping>(bytes, threads());
  const bool pinned = pin_it(*mapping);
  return {Buffer::over(kCpu, {mapping, mapping->data()}, bytes), pinned};
}

TierBuffer HostTier::allocate_ring(std::int64_t bytes) {
  if (bytes == 0) return allocate(bytes);
  return map_alone(bytes, [&](HostMapping& mapping) { return mapping.pin(device_).empty(); });
}

}  // namespace zeroshard
