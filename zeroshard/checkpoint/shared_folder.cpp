// Every rank leaves a word in the folder and looks for the others'. A disk of one host's own is
// noticed so, before a job has trained for hours.
#include <array>
#include <chrono>
#include <random>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/save_folder.h"
#include "zeroshard/checkpoint/unfinished.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

// Network file systems may show a new file some seconds late.
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kLookEvery{20};
constexpr std::uint64_t kMaxWordBytes = 1000;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

std::string new_word() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// Whether the file is there and says the word.
bool says(const fs::path& path, const std::string& word) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    std::error_code ignored;
    if (fs::exists(path, ignored) && read_text_file(path, kMaxWordBytes) == word) return true;
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
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

void leave_word(const fs::path& folder, const std::string& word, int rank) {
  if (rank == 0 || says(word_of(folder, 0), word)) {
    return write_text_file(word_of(folder, rank), word);
  }
  throw StorageError(
      {.what = fmt::format("host {} does not see the folder that rank 0 sees", host_name()),
       .value = folder.parent_path().string(),
       .remedy = "save to a folder that all hosts share"});
}

void look_for_words(const fs::path& folder, const std::string& word,
                    const std::vector<std::string>& hosts) {
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (says(word_of(folder, static_cast<int>(rank)), word)) continue;
    throw StorageError({.what = fmt::format("rank 0 does not see what rank {} on host {} writes",
                                            rank, hosts[rank]),
                        .value = folder.parent_path().string(),
                        .remedy = "save to a folder that all hosts share"});
  }
}

}  // namespace

void check_folder_is_shared(Communicator& comm, const fs::path& root) {
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
  const std::string word = said.substr(0, new_word().size());
  const fs::path folder = root / said.substr(word.size());
  const auto leave = [&] {
    leave_word(folder, word, comm.rank());
    return host_name();
  };
  const std::vector<std::string> hosts = all_say(comm, leave, kLabel);
  all_do(
      comm,
      [&] {
        if (comm.rank() == 0) look_for_words(folder, word, hosts);
      },
      kLabel);
}

}  // namespace zeroshard
