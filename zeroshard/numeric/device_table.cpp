#include "zeroshard/numeric/device_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "zeroshard/device/buffer.h"
#include "zeroshard/device/stream.h"

namespace zeroshard {

struct DeviceTable::Slot {
  Device device;
  Buffer host, on_device;
  bool taken = true;
  Event last_use = {};

  Slot(Device of, std::int64_t bytes)
      : device(of), host(Buffer::pinned(of, bytes)), on_device(of, bytes) {}
};

// Never destroyed: the driver may be gone by the time static variables are.
class DeviceTable::Pool {
 public:
  static Pool& instance() {
    static Pool& pool = *new Pool;
    return pool;
  }

  Slot& take(Device device, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    for (const auto& slot : slots_) {
      const bool fits = slot->device == device && slot->host.bytes() >= bytes;
      if (!fits || slot->taken || !slot->last_use.done()) continue;
      slot->taken = true;
      return *slot;
    }
    constexpr std::int64_t kLeast = 4096;
    const auto size = std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, kLeast)));
    slots_.push_back(std::make_unique<Slot>(device, static_cast<std::int64_t>(size)));
    return *slots_.back();
  }

  void give_back(Slot& slot, const Event& last_use) {
    const std::lock_guard lock(mutex_);
    slot.last_use = last_use;
    slot.taken = false;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

DeviceTable::DeviceTable(const Stream& stream, const void* entries, std::int64_t bytes)
    : stream_(stream) {
  if (bytes == 0) return;
  slot_ = &Pool::instance().take(stream.device(), bytes);
  data_ = slot_->on_device.data();
  std::memcpy(slot_->host.data(), entries, static_cast<std::size_t>(bytes));
  // No stream has to wait: new memory is ordered behind the current stream, which this one is, and
  // the last use of old memory is over.
  copy_bytes(stream, data_, stream.device(), slot_->host.data(), kCpu, bytes);
}

DeviceTable::~DeviceTable() {
  if (slot_ == nullptr) return;
  try {
    Event last_use;
    last_use.record(stream_);
    Pool::instance().give_back(*slot_, last_use);
  } catch (...) {  // the device is broken: the slot stays taken, and nobody will miss it
  }
}

}  // namespace zeroshard
