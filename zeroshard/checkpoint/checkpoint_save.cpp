#include "zeroshard/checkpoint/checkpoint_save.h"

#include <chrono>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/free_space.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string label_of(const SaveRequest& request) { return "save " + request.tag; }

// What a rank other than 0 tells of its file, for as long as the folder is not complete.
std::string part_name(int rank) { return fmt::format("rank_{:05}.json", rank); }

StorageError unseen(const fs::path& path, const std::string& what) {
  return StorageError(
      {.what = what, .value = path.string(), .remedy = "save to a folder that all hosts share"});
}

constexpr const char* kNotSeen = "rank 0 does not see a file that another rank has written";

// Taken out of the folder.
Manifest take_part(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw unseen(path, kNotSeen);
  Manifest part = parse_part(read_text_file(path, kMaxManifestBytes), path.string());
  fs::remove(path, ignored);
  return part;
}

}  // namespace

CheckpointSave::CheckpointSave(SaveFolder& folder, const SaveRequest& request,
                               SaveContents contents, Communicator& comm)
    : folder_(folder), request_(request), contents_(std::move(contents)) {
  begin(comm);
}

void CheckpointSave::begin(Communicator& comm) {
  const auto make_folder = [&] {
    check_tag(request_.tag);
    folder_.check_held();
    folder_.tidy();
    writer_.emplace(folder_.root() / request_.tag, std::vector{std::string(kManifestFile)});
    return writer_->folder().filename().string();
  };
  aside_ = folder_.root() / first_says(comm, make_folder, label_of(request_));
  const auto say_bytes = [&] {
    file_.emplace(contents_, comm.rank());
    return std::to_string(file_->bytes());
  };
  for (const std::string& bytes : all_say(comm, say_bytes, label_of(request_))) {
    all_bytes_ += std::stoull(bytes);
  }
  all_do(
      comm, [&] { check_room(); }, label_of(request_));
}

// Each rank for itself: hosts may see different disks, or quotas.
void CheckpointSave::check_room() const {
  const auto free = free_bytes(folder_.root());
  if (!free || all_bytes_ <= *free) return;
  throw StorageError({.what = fmt::format("there is no room for a checkpoint of {}, {} are free",
                                          human_bytes(static_cast<std::int64_t>(all_bytes_)),
                                          human_bytes(static_cast<std::int64_t>(*free))),
                      .value = folder_.root().string(),
                      .remedy = "free some space, keep fewer checkpoints, or choose another disk"});
}

void CheckpointSave::run(const CopyState& copy, const SaveStaging& staging, Communicator& comm) {
  Manifest mine;
  const auto write = [&] {
    mine = file_->write(aside_, copy, staging);
    // Through the folder, which rank 0 sees: messages would bring every part to every rank.
    if (comm.rank() != 0) write_text_file(aside_ / part_name(comm.rank()), format_manifest(mine));
  };
  all_do(comm, write, label_of(request_));
  const auto commit_if_first = [&] {
    if (comm.rank() == 0) commit(std::move(mine), comm.world_size());
  };
  all_do(comm, commit_if_first, label_of(request_));
  if (comm.rank() == 0) folder_.remove_old();
}

void CheckpointSave::commit(Manifest mine, int ranks) {
  std::vector<Manifest> all;
  all.push_back(std::move(mine));
  for (int rank = 1; rank < ranks; ++rank) all.push_back(take_part(aside_ / part_name(rank)));
  Manifest manifest = join_parts(std::move(all));
  manifest.tag = request_.tag;
  manifest.saved_at_ms = now_ms();
  manifest.ranks = ranks;
  const std::string text = format_manifest(manifest);
  parse_manifest(text, "the new manifest");  // whatever is wrong with it is found now
  check_files(manifest);
  folder_.check_held();
  write_text_file(aside_ / kManifestFile, text);
  writer_->finish();
  if (request_.latest) write_pointer(folder_.root(), kLatestFile, request_.tag);
  if (request_.best) write_pointer(folder_.root(), kBestFile, request_.tag);
}

// Rank 0 sees with its own eyes what others say that they have written.
void CheckpointSave::check_files(const Manifest& manifest) const {
  for (const StoredFile& file : manifest.files) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(aside_ / file.name, error);
    if (!error && bytes == file.bytes) continue;
    throw unseen(
        aside_ / file.name,
        error ? kNotSeen : fmt::format("rank 0 sees {} bytes of a file of {}", bytes, file.bytes));
  }
}

}  // namespace zeroshard
