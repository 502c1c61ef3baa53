// Who may save where, what is kept, and what a save that fails leaves: nothing.

#include <csignal>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/checkpoint/saved_model.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/verify.h"
#include "zeroshard/comm/single.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

const SavedModel kModel = SavedModel::random(4, 6, 4000);

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

using Names = std::set<std::string>;

TEST(SaveFolder, HoldsALockAndLeavesNothingElse) {
  const TestFolder folder;
  const auto comm = make_single_communicator();
  {
    const SaveFolder first(*comm, folder / "runs/7");
    EXPECT_EQ(names_in(folder / "runs/7"), Names{".zeroshard-lock"});
    const std::string message =
        message_thrown<StorageError>([&] { SaveFolder second(*comm, folder / "runs/7"); });
    EXPECT_TRUE(has(message, "another job saves to this folder"));
    EXPECT_TRUE(has(message, "process " + std::to_string(::getpid())));
  }
  EXPECT_EQ(names_in(folder / "runs/7"), Names{});
  const SaveFolder again(*comm, folder / "runs/7");
}

TEST(SaveFolder, TheLockOfADeadJobCountsForNothing) {
  const TestFolder folder;
  die_in_the_middle_of([&] {
    const auto comm = make_single_communicator();
    const SaveFolder held(*comm, folder.path());
    ::_exit(0);
  });
  EXPECT_EQ(names_in(folder.path()), Names{".zeroshard-lock"});
  const auto comm = make_single_communicator();
  const SaveFolder again(*comm, folder.path());
}

// On a file system whose locks do not reach other hosts both would get it.
TEST(SaveFolder, IsTakenOverByNobodyUnnoticed) {
  const TestFolder folder;
  const auto comm = make_single_communicator();
  put_file(folder / ".zeroshard-lock", "process 17 on other-host, since 2026-01-01 UTC (1)");
  std::string told;
  const LogScope log({}, [&](LogLevel, std::string_view line) { told += line; });
  SaveFolder first(*comm, folder.path());
  EXPECT_TRUE(has(told, "last held by process 17 on other-host"));
  save(first, {.tag = "a"}, kModel, *comm);
  put_file(folder / ".zeroshard-lock", "process 18 on other-host, since 2026-01-02 UTC (2)");
  const auto save_again = [&] { save(first, {.tag = "b"}, kModel, *comm); };
  EXPECT_TRUE(has(message_thrown<StorageError>(save_again),
                  "another job has begun to save to this folder: process 18 on other-host"));
  EXPECT_EQ(tags_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(SaveFolder, KeepsTheLastOnesAndWhatIsPointedAt) {
  const TestFolder folder;
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path(), {.keep = 2});
    save(to, {.tag = "1", .best = true}, kModel, comm);
    for (const char* tag : {"2", "3"}) save(to, {.tag = tag}, kModel, comm);
    save(to, {.tag = "4"}, kModel, comm);
    for (const char* tag : {"5", "6"}) save(to, {.tag = tag, .latest = false}, kModel, comm);
  });
  EXPECT_EQ(names_in(folder.path()), (Names{"1", "4", "5", "6", "best", "latest"}));
  EXPECT_EQ(read_pointer(folder.path(), kLatestFile), "4");
  EXPECT_EQ(read_pointer(folder.path(), kBestFile), "1");
  EXPECT_EQ(difference(StateFiles::open(folder.path()), kModel), "");
}

// Nobody knows what it names, so all stay; the save itself is well, on every rank.
TEST(SaveFolder, KeepsEverythingWhileAPointerCannotBeRead) {
  const TestFolder folder;
  std::string told;
  const LogScope log({}, [&](LogLevel, std::string_view line) { told += line; });
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path(), {.keep = 1});
    save(to, {.tag = "1"}, kModel, comm);
    if (comm.rank() == 0) put_file(folder / "best", "");
    comm.barrier("emptied").wait();
    save(to, {.tag = "2"}, kModel, comm);
    comm.barrier("saved").wait();
    EXPECT_EQ(names_in(folder.path()), (Names{".zeroshard-lock", "1", "2", "best", "latest"}));
    comm.barrier("seen").wait();
    if (comm.rank() == 0) put_file(folder / "best", "2");
    comm.barrier("set right").wait();
    save(to, {.tag = "3"}, kModel, comm);
  });
  EXPECT_TRUE(has(told, "are not removed: [storage] this file should hold the tag"));
  EXPECT_EQ(names_in(folder.path()), (Names{"2", "3", "best", "latest"}));
}

// Killed between the two renames that replace a folder on file systems without a better way.
TEST(SaveFolder, IsReadAndSetRightAfterAReplacementThatWasCutShort) {
  const TestFolder folder;
  const SavedModel other = SavedModel::random(9, 6, 4000);
  const auto comm = make_single_communicator();
  {
    SaveFolder to(*comm, folder.path());
    save(to, {.tag = "1"}, kModel, *comm);
  }
  const fs::path kept = folder / "1.replaced-1";
  fs::rename(folder / "1", kept);
  fs::create_directories(folder / "1.partial-1");
  EXPECT_EQ(StateFiles::open(folder.path()).folder(), kept) << "by `latest`";
  EXPECT_EQ(StateFiles::open(folder.path(), "1").folder(), kept);
  EXPECT_EQ(StateFiles::open(folder / "1").folder(), kept);
  EXPECT_EQ(difference(StateFiles::open(folder.path()), kModel), "");
  const LogScope log({}, [](LogLevel, std::string_view) {});
  SaveFolder to(*comm, folder.path());
  EXPECT_EQ(names_in(folder.path()), (Names{".zeroshard-lock", "1", "latest"}));
  EXPECT_EQ(difference(StateFiles::open(folder.path()), kModel), "");
  save(to, {.tag = "1"}, other, *comm);
  EXPECT_EQ(difference(StateFiles::open(folder.path()), other), "");
}

TEST(SaveFolder, SavesTheSameTagAgain) {
  const TestFolder folder;
  const SavedModel other = SavedModel::random(9, 6, 4000);
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path());
    save(to, {.tag = "1"}, kModel, comm);
    save(to, {.tag = "1"}, other, comm);
  });
  EXPECT_EQ(names_in(folder.path()), (Names{"1", "latest"}));
  EXPECT_EQ(difference(StateFiles::open(folder.path()), other), "");
}

TEST(SaveFolder, RefusesAFolderOfSomebodyElses) {
  const TestFolder folder;
  fs::create_directories(folder / "global_step1");
  put_file(folder / "global_step1/mp_rank_00_model_states.pt", "weeks of work");
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path());
    EXPECT_THROW(save(to, {.tag = "global_step1"}, kModel, comm), ConfigError);
  });
  EXPECT_EQ(names_in(folder.path()), Names{"global_step1"});
}

TEST(SaveFolder, RemovesWhatDeadWritersLeft) {
  const TestFolder folder;
  const std::vector<std::string> dead{"1.partial-1", "latest.partial-1", "old.replaced-1"};
  fs::create_directories(folder / dead[0]);
  put_file(folder / dead[1], "1");
  fs::create_directories(folder / dead[2]);
  put_file(folder / dead[2] / "manifest.json", "the only one");
  fs::create_directories(folder / "2.partial-1");
  const int lock = ::open((folder / "2.partial-1").c_str(), O_RDONLY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0) << "of a writer that lives";
  const auto comm = make_single_communicator();
  {
    const LogScope log({}, [](LogLevel, std::string_view) {});
    const SaveFolder to(*comm, folder.path());
    EXPECT_EQ(names_in(folder.path()), (Names{".zeroshard-lock", "2.partial-1", "old"}));
  }
  ::close(lock);
  EXPECT_EQ(bytes_of_file(folder / "old/manifest.json"), "the only one");
}

// Each rank with a folder of its own, as on hosts that share nothing.
TEST(SaveFolder, ThatOneRankDoesNotSeeIsSaidBeforeTraining) {
  const TestFolder folder;
  for (const int blind : {0, 1, 2}) {
    run_ranks(3, {}, [&](Communicator& comm) {
      const std::string own = comm.rank() == blind ? "local" : "shared";
      fs::create_directories(folder / own);
      const std::string message = message_thrown<StorageError>(
          [&] { check_folder_is_shared(comm, folder / own, std::chrono::milliseconds(100)); });
      EXPECT_TRUE(has(message, "does not see"));
      EXPECT_TRUE(has(message, "all hosts share"));
    });
  }
  for (const char* name : {"local", "shared"}) EXPECT_EQ(names_in(folder / name), Names{});
}

// As a user who may not write; the superuser may always.
TEST(SaveFolder, ThatIsReadOnlyIsSaidBeforeTraining) {
  const TestFolder folder;
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(folder.path(), fs::perms::all);
  die_in_the_middle_of([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(2);
    const auto comm = make_single_communicator();
    const std::string message =
        message_thrown<StorageError>([&] { SaveFolder to(*comm, folder / "closed"); });
    if (!has(message, "check the permissions")) ::_exit(3);
  });
}

TEST(SaveFolder, ThatVanishesIsAnErrorOfTheNextSave) {
  const TestFolder folder;
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder / "runs");
    save(to, {.tag = "1"}, kModel, comm);
    comm.barrier("saved").wait();
    if (comm.rank() == 0) fs::remove_all(folder / "runs");
    comm.barrier("removed").wait();
    const std::string message =
        message_thrown<StorageError>([&] { save(to, {.tag = "2"}, kModel, comm); });
    EXPECT_TRUE(has(message, "was removed or replaced"));
  });
}

// The first checkpoint is what it was, and nothing is left of the second.
void expect_only_the_first(const fs::path& folder, const SavedModel& model) {
  EXPECT_EQ(names_in(folder), (Names{"1", "latest"}));
  EXPECT_EQ(difference(StateFiles::open(folder), model), "");
}

class Limited {
 public:
  explicit Limited(rlim_t bytes) : former_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit limit{bytes, former_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~Limited() {
    ::setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_handler_);
  }

 private:
  rlimit former_{};
  void (*former_handler_)(int);
};

TEST(SaveFolder, AFileThatMayNotGrowIsAnErrorOnAllRanks) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(8, 10, 300'000);
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path());
    save(to, {.tag = "1"}, model, comm);
    comm.barrier("saved").wait();
    std::optional<Limited> limited;
    if (comm.rank() == 0) limited.emplace(100'000);
    comm.barrier("limited").wait();
    const std::string message =
        message_thrown<StorageError>([&] { save(to, {.tag = "2"}, model, comm); });
    EXPECT_TRUE(has(message, "rank 0: "));
    EXPECT_TRUE(has(message, "ulimit -f"));
    comm.barrier("seen").wait();
  });
  expect_only_the_first(folder.path(), model);
}

// A disk with room for one checkpoint and a half, where the user may mount one.
TEST(SaveFolder, AFullDiskIsSaidBeforeAndWhileItIsWritten) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(8, 10, 1'000'000);
  const std::uint64_t bytes = RankFile(model.contents(0, 1), 0).bytes();
  const std::string size = "size=" + std::to_string(bytes * 3 / 2);
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, size.c_str()) != 0) {
    GTEST_SKIP() << "no right to mount a small disk";
  }
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path());
    save(to, {.tag = "1"}, model, comm);
    const auto save_again = [&] { save(to, {.tag = "2"}, model, comm); };
    const std::string before = message_thrown<StorageError>(save_again);
    EXPECT_TRUE(has(before, "there is no room for a checkpoint of"));
    comm.barrier("seen").wait();
    if (comm.rank() == 0) fs::remove_all(folder / "1");
    comm.barrier("removed").wait();
    const SaveContents contents = model.contents(comm.rank(), 2);
    CheckpointSave late(to, {.tag = "3"}, contents, comm);
    // Somebody else fills the disk meanwhile.
    if (comm.rank() == 0) put_file(folder / "other", std::string(bytes, 'x'));
    comm.barrier("filled").wait();
    const std::string during = message_thrown<StorageError>(
        [&] { late.run(model.source(contents), SaveStaging(), comm); });
    EXPECT_TRUE(has(during, "there is no room for a file"));
  });
  EXPECT_EQ(names_in(folder.path()), (Names{"latest", "other"}));
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

}  // namespace
}  // namespace zeroshard
