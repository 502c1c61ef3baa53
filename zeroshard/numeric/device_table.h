// A table that a kernel reads, brought to the device in a stream's order without a wait of the
// host.
//
//   const DeviceTable table(stream, entries.data(), bytes);
//   module.launch(stream, 0, shape, {&table.data(), &count});   // the table lives until the launch
//
// The memory (pinned, and the device's) is kept for later tables: it is free again once the stream
// has come past the table's end. There are as many as are under way at once, of some KiB each.
#pragma once

#include <cstdint>

#include "zeroshard/device/stream.h"

namespace zeroshard {

class DeviceTable {
 public:
  DeviceTable(const Stream& stream, const void* entries, std::int64_t bytes);
  ~DeviceTable();
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  void* const& data() const { return data_; }

 private:
  struct Slot;
  class Pool;

  const Stream stream_;
  Slot* slot_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace zeroshard
