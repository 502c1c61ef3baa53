#include "zeroshard/checkpoint/verify.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

class Verifier {
 public:
  Verifier(const StateFiles& files, const std::function<void(std::uint64_t)>& see_progress)
      : files_(files), manifest_(files.manifest()), see_progress_(see_progress) {
    chunk_.resize(manifest_.chunk_bytes);
  }

  Verified take() { return std::move(result_); }

  void check(std::size_t number) {
    const StoredFile& stored = manifest_.files[number];
    const std::filesystem::path path = files_.folder() / stored.name;
    ++result_.files;
    std::error_code error;
    const std::uint64_t bytes = std::filesystem::file_size(path, error);
    if (error) return note(number, "cannot be read: " + error.message(), all_of(stored));
    if (bytes != stored.bytes) {
      note(number, fmt::format("has {} bytes, and {} were written", bytes, stored.bytes),
           bytes < stored.bytes ? Span(signed_of(bytes), signed_of(stored.bytes)) : Span());
    }
    if (stored.chunks.empty()) {
      result_.unchecked += bytes;
      return;
    }
    check_chunks(number, std::min(bytes, stored.bytes));
  }

 private:
  static std::int64_t signed_of(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }
  static Span all_of(const StoredFile& file) { return {0, signed_of(file.bytes)}; }

  void check_chunks(std::size_t number, std::uint64_t bytes) {
    const StoredFile& stored = manifest_.files[number];
    const File file = File::open_to_read(files_.folder() / stored.name);
    file.expect_reads_in_order();
    for (std::size_t i = 0; i < stored.chunks.size(); ++i) {
      const std::uint64_t begin = i * manifest_.chunk_bytes;
      const std::uint64_t size = std::min(manifest_.chunk_bytes, stored.bytes - begin);
      if (begin + size > bytes) return;  // the file is too short, which is noted
      const std::span<std::byte> chunk = std::span(chunk_).first(size);
      file.read_at(begin, chunk);
      if (checksum_of(chunk) == stored.chunks[i]) {
        result_.bytes += size;
      } else {
        note(number, fmt::format("is damaged in bytes {} to {}", begin, begin + size),
             Span(signed_of(begin), signed_of(begin + size)));
      }
      if (see_progress_) see_progress_(result_.bytes);
    }
  }

  void note(std::size_t number, std::string what, const Span& bytes) {
    result_.damaged.push_back({.file = manifest_.files[number].name,
                               .what = std::move(what),
                               .states = states_in(manifest_, number, bytes)});
  }

  const StateFiles& files_;
  const Manifest& manifest_;
  const std::function<void(std::uint64_t)>& see_progress_;
  std::vector<std::byte> chunk_;
  Verified result_;
};

}  // namespace

Verified verify(const StateFiles& files, const std::function<void(std::uint64_t)>& see_progress) {
  Verifier verifier(files, see_progress);
  for (std::size_t i = 0; i < files.manifest().files.size(); ++i) verifier.check(i);
  return verifier.take();
}

}  // namespace zeroshard
