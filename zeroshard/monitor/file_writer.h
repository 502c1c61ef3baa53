// A file that only grows. Every error is one StorageError with the path and a remedy.
//
//   FileWriter file("runs/loss.csv", {.append = true, .make_folders = true});
//   file.append("1,0.5\n");
//   file.flush();  // a reader sees it now
#pragma once

#include <string>
#include <string_view>

#include "zeroshard/base/error.h"

namespace zeroshard {

struct FileWriterOptions {
  bool append = false;        // else what was in the file is lost
  bool make_folders = false;  // those above the file, where they are missing
  // When appending, first end a line that a crash cut short; and where the disk is full, take back
  // the part of a line that still went in.
  bool whole_lines = false;
};

class FileWriter {
 public:
  explicit FileWriter(std::string path, FileWriterOptions options = {});
  // Tries to write what is left and says nothing where that fails; call close() to know.
  ~FileWriter();
  FileWriter(FileWriter&& other) noexcept;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  FileWriter& operator=(FileWriter&&) = delete;

  // Kept in memory until flush(), or until there is much of it.
  void append(std::string_view text);

  // Hands all to the system. After an error the rest is kept, so that a later call goes on at the
  // byte where this one stopped; with whole_lines, at the line.
  void flush();

  // flush(), then closes: some file systems tell only here that the disk is full.
  void close();

  const std::string& path() const noexcept { return path_; }

  // Whether the file held nothing when it was opened: then it needs its header.
  bool was_empty() const noexcept { return was_empty_; }

 private:
  std::size_t kept_of(std::size_t written) const;

  std::string path_;
  std::string pending_;
  int descriptor_ = -1;
  bool was_empty_ = true;
  bool whole_lines_ = false;
};

// Writes all of `text` to a file beside `path`, then renames: readers see the old file or the new
// one, never a part. A path that is no plain file (/dev/stdout) is written to directly.
void replace_file(const std::string& path, std::string_view text);

}  // namespace zeroshard
