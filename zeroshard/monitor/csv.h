// One CSV file per series, laid out as DeepSpeed's csv_monitor does: `Train/Samples/lr` is in
// Train_Samples_lr.csv, which begins with `step,lr`.
//
// Unlike there, the header is written only into an empty file: a run that resumes goes on with the
// rows, where DeepSpeed puts a second header between them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "zeroshard/monitor/file_writer.h"
#include "zeroshard/monitor/scalar.h"

namespace zeroshard {

// "Train/Samples/loss scale" -> "Train_Samples_loss_scale.csv"
std::string csv_file_name(std::string_view tag);

class CsvWriter {
 public:
  // `folder` is made where it is missing, at once.
  explicit CsvWriter(std::string folder);

  // One row per scalar, in the files when this returns.
  void write(std::int64_t step, std::span<const Scalar> scalars);

 private:
  FileWriter& file_of(std::string_view tag);

  struct Series {
    std::string tag;
    FileWriter file;
  };
  std::string folder_;
  std::map<std::string, Series, std::less<>> series_;  // by file name
};

}  // namespace zeroshard
