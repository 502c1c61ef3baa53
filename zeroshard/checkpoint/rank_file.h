// The data file that one rank writes: where what lies in it, and its way to the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/save_contents.h"
#include "zeroshard/checkpoint/staged_file.h"

namespace zeroshard {

class RankFile {
 public:
  // Throws ConfigError for what cannot be saved: names that are no UTF-8 or repeat, shapes that do
  // not fit. The contents must outlive it.
  RankFile(const SaveContents& contents, int rank);

  std::uint64_t bytes() const { return bytes_; }

  // Writes and syncs it. The answer is what rank 0 needs to know (manifest.h, join_parts).
  Manifest write(const std::filesystem::path& folder, const CopyState& copy,
                 const SaveStaging& staging) const;

 private:
  void lay_out();
  void append_states(Manifest& part) const;
  void append_blobs(Manifest& part) const;

  const SaveContents& contents_;
  const int rank_;
  std::string head_;
  std::vector<std::size_t> order_;      // of the states in the file
  std::vector<std::uint64_t> offsets_;  // of each state, as contents_ has them
  std::vector<std::uint64_t> blobs_;    // offsets
  std::uint64_t bytes_ = 0;
};

}  // namespace zeroshard
