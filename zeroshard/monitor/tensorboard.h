// TensorBoard's event files: TFRecords of Event messages, as TensorFlow and torch write them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "zeroshard/monitor/file_writer.h"
#include "zeroshard/monitor/scalar.h"

namespace zeroshard {

// A new file in `folder`, which is made where it is missing. Several runs may share the folder:
// TensorBoard reads all event files of one as one run.
class TensorBoardWriter {
 public:
  explicit TensorBoardWriter(const std::string& folder);

  // One event with all the scalars, in the file when this returns. TensorBoard stores 32-bit
  // floats.
  void write(std::int64_t step, std::span<const Scalar> scalars);

  const std::string& path() const noexcept { return file_.path(); }

 private:
  FileWriter file_;
};

namespace tensorboard_detail {  // for tests against golden bytes

// length, its checksum, the payload, its checksum
std::string record(std::string_view payload);

// Messages of tensorflow/core/util/event.proto, before framing. `wall_time` is in seconds since
// 1970.
std::string version_event(double wall_time);
std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);

}  // namespace tensorboard_detail
}  // namespace zeroshard
