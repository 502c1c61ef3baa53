#include "zeroshard/device/backend.h"

#include <array>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/cpu_backend.h"

namespace zeroshard {
namespace {

struct Entry {
  DeviceBackend* backend = nullptr;
  std::string reason = "accelerators were not loaded";
};

struct Table {
  std::mutex mutex;
  std::array<Entry, 2> entries;  // by DeviceKind

  Table() { entries[0].backend = make_cpu_backend().release(); }
  Entry& at(DeviceKind kind) { return entries.at(static_cast<std::size_t>(kind)); }
};

// Never destroyed, as its backends are not.
Table& table() {
  static Table& instance = *new Table;
  return instance;
}

}  // namespace

std::string name_of(Device device) {
  if (device.kind == DeviceKind::cpu) return "cpu";
  return fmt::format("{}:{}", name_of(device.kind), device.index);
}

void StreamFailure::raise() {
  reported = true;
  std::rethrow_exception(error);
}

void StreamPoint::synchronize() const {
  block();
  if (const auto failed = failure()) failed->raise();
}

PointPtr innermost(PointPtr point) {
  while (auto inner = point->point_on_device()) point = std::move(inner);
  return point;
}

DeviceBackend& backend_of(DeviceKind kind) {
  const std::lock_guard lock(table().mutex);
  const Entry& entry = table().at(kind);
  if (entry.backend != nullptr) return *entry.backend;
  throw ConfigError({.what = fmt::format("this process has no {} device", name_of(kind)),
                     .value = entry.reason,
                     .remedy = "run on a machine that has one, or keep everything on the CPU"});
}

void install_backend(DeviceKind kind, std::unique_ptr<DeviceBackend> backend) {
  const std::lock_guard lock(table().mutex);
  ZS_CHECK(table().at(kind).backend == nullptr, "a second backend for {}", name_of(kind));
  table().at(kind).backend = backend.release();
}

std::string missing_reason(DeviceKind kind) {
  const std::lock_guard lock(table().mutex);
  const Entry& entry = table().at(kind);
  return entry.backend == nullptr ? entry.reason : "";
}

void explain_missing(DeviceKind kind, std::string reason) {
  const std::lock_guard lock(table().mutex);
  table().at(kind).reason = std::move(reason);
}

}  // namespace zeroshard
