// Every rank leaves a word in the folder and looks for the others'. A disk of one host's own is
// noticed so, before a job has trained for hours.
#include <chrono>
#include <random>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/host_name.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/save_folder.h"
#include "zeroshard/checkpoint/unfinished.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookEvery{20};
constexpr std::uint64_t kMaxWordBytes = 1000;

std::string new_word() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

fs::path word_of(const fs::path& folder, int rank) { return folder / fmt::format("rank_{}", rank); }

// The folder of the words, for as long as the ranks look into it.
class Words {
 public:
  explicit Words(const fs::path& root) : folder_(partial_path(root / "shared")) {
    std::error_code error;
    fs::create_directory(folder_, error);
    if (error) throw file_error("a folder cannot be written to", root, error.value());
    lock_ = lock_folder(folder_);
  }
  ~Words() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    if (lock_ >= 0) ::close(lock_);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  const fs::path& folder() const { return folder_; }

 private:
  const fs::path folder_;
  int lock_ = -1;
};

// "" where it cannot be read, or not yet.
std::string text_in(const fs::path& path) {
  try {
    return read_text_file(path, kMaxWordBytes);
  } catch (const StorageError&) {
    return {};
  }
}

class Look {
 public:
  Look(fs::path folder, std::string word, std::chrono::milliseconds patience)
      : folder_(std::move(folder)), word_(std::move(word)), patience_(patience) {}

  void leave_word(int rank) const {
    if (rank == 0) return;  // it has left its word already
    if (sees(0)) return write_text_file(word_of(folder_, rank), word_);
    throw StorageError(
        {.what = fmt::format("host {} does not see the folder that rank 0 sees", host_name()),
         .value = folder_.parent_path().string(),
         .remedy = "save to a folder that all hosts share"});
  }

  void look_for_words(const std::vector<std::string>& hosts) const {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (sees(static_cast<int>(rank))) continue;
      throw StorageError({.what = fmt::format("rank 0 does not see what rank {} on host {} writes",
                                              rank, hosts[rank]),
                          .value = folder_.parent_path().string(),
                          .remedy = "save to a folder that all hosts share"});
    }
  }

 private:
  bool sees(int rank) const {
    const fs::path path = word_of(folder_, rank);
    const auto give_up = std::chrono::steady_clock::now() + patience_;
    while (true) {
      if (text_in(path) == word_) return true;
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(kLookEvery);
    }
  }

  const fs::path folder_;
  const std::string word_;
  const std::chrono::milliseconds patience_;
};

}  // namespace

void check_folder_is_shared(Communicator& comm, const fs::path& root,
                            std::chrono::milliseconds patience) {
  constexpr const char* kLabel = "a folder that all ranks see";
  std::optional<Words> words;
  const std::string said = first_says(
      comm,
      [&] {
        words.emplace(root);
        const std::string word = new_word();
        write_text_file(word_of(words->folder(), 0), word);
        return word + words->folder().filename().string();
      },
      kLabel);
  const std::size_t word_size = new_word().size();
  const Look look(root / said.substr(word_size), said.substr(0, word_size), patience);
  const auto leave_word = [&] {
    look.leave_word(comm.rank());
    return host_name();
  };
  const std::vector<std::string> hosts = all_say(comm, leave_word, kLabel);
  const auto look_for_words = [&] {
    if (comm.rank() == 0) look.look_for_words(hosts);
  };
  all_do(comm, look_for_words, kLabel);
}

}  // namespace zeroshard
