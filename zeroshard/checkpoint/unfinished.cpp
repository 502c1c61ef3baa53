#include "zeroshard/checkpoint/unfinished.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/log.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kReplaced = ".replaced-";

enum class Proof { lock_and_process, lock };

struct Leftover {
  fs::path path;
  fs::path target;
  pid_t writer = 0;
};

fs::path beside(const fs::path& target, std::string_view kind) {
  fs::path path = target;
  return path += fmt::format("{}{}", kind, ::getpid());
}

// Nothing where the name is another one.
std::optional<Leftover> leftover_of(const fs::path& path, std::string_view kind) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(kind);
  if (at == std::string::npos || at == 0) return std::nullopt;
  pid_t pid = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + at + kind.size(), end, pid);
  if (error != std::errc{} || stopped != end || pid <= 0) return std::nullopt;
  return Leftover{path, path.parent_path() / name.substr(0, at), pid};
}

std::vector<Leftover> leftovers_in(const fs::path& folder, std::string_view kind) {
  std::vector<Leftover> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (const auto leftover = leftover_of(it->path(), kind)) found.push_back(*leftover);
  }
  std::ranges::sort(found, {}, &Leftover::path);
  return found;
}

std::vector<Leftover> leftovers_of(const fs::path& target, std::string_view kind) {
  std::vector<Leftover> all = leftovers_in(target.parent_path(), kind);
  std::erase_if(all, [&](const Leftover& one) { return one.target != target; });
  return all;
}

bool is_abandoned(const Leftover& leftover, Proof proof) {
  const bool may_live =
      leftover.writer != ::getpid() && !(::kill(leftover.writer, 0) != 0 && errno == ESRCH);
  if (proof == Proof::lock_and_process && may_live) return false;
  const int lock = lock_folder(leftover.path);
  if (lock >= 0) ::close(lock);
  return lock >= 0;
}

void remove_abandoned(const std::vector<Leftover>& leftovers, Proof proof) {
  for (const Leftover& leftover : leftovers) {
    if (!is_abandoned(leftover, proof)) continue;
    std::error_code error;
    fs::remove_all(leftover.path, error);
    if (error) log_warning("{} is left over and cannot be removed", leftover.path.string());
  }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

void put_back(const Leftover& kept, Proof proof) {
  if (is_there(kept.target) || !is_abandoned(kept, proof)) return;
  std::error_code error;
  fs::rename(kept.path, kept.target, error);
  if (error) throw file_error("a folder cannot be renamed back", kept.path, error.value());
  log_warning("{} was missing after a save that was cut short; its last version is back",
              kept.target.string());
}

void recover(const std::vector<Leftover>& replaced, const std::vector<Leftover>& partial,
             Proof proof) {
  // The last name first: it is the newest.
  for (auto kept = replaced.rbegin(); kept != replaced.rend(); ++kept) put_back(*kept, proof);
  remove_abandoned(partial, proof);
  std::vector<Leftover> old = replaced;
  std::erase_if(old, [](const Leftover& one) { return !is_there(one.target); });
  remove_abandoned(old, proof);
}

}  // namespace

fs::path partial_path(const fs::path& target) { return beside(target, kPartial); }
fs::path replaced_path(const fs::path& target) { return beside(target, kReplaced); }

bool is_unfinished_name(std::string_view name) {
  return leftover_of(name, kPartial).has_value() || leftover_of(name, kReplaced).has_value();
}

int lock_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return -1;
}

void recover(const fs::path& target) {
  recover(leftovers_of(target, kReplaced), leftovers_of(target, kPartial), Proof::lock_and_process);
}

void recover_all_in(const fs::path& folder) {
  recover(leftovers_in(folder, kReplaced), leftovers_in(folder, kPartial), Proof::lock);
}

fs::path interrupted_replacement(const fs::path& target) {
  const fs::path path = normal_target(target);
  if (is_there(path)) return {};
  const std::vector<Leftover> kept = leftovers_of(path, kReplaced);
  return kept.empty() ? fs::path{} : kept.back().path;
}

fs::path normal_target(const fs::path& target) {
  fs::path path = fs::absolute(target).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.has_filename()) return path;
  throw ConfigError({.what = "a folder is to be written here",
                     .value = target.string(),
                     .remedy = "name a folder below it"});
}

}  // namespace zeroshard
