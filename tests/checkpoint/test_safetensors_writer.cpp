// What is written comes back, in any pieces; what is not complete leaves nothing behind.

#include <csignal>
#include <numeric>
#include <random>

#include <sys/resource.h>
#include <sys/statvfs.h>

#include "tests/checkpoint/checkpoint_support.h"
#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

const std::vector<TensorEntry> kEntries{{.name = "big", .dtype = DType::fp32, .shape = {100, 33}},
                                        {.name = "none", .dtype = DType::fp32, .shape = {0}},
                                        {.name = "half", .dtype = DType::bf16, .shape = {7, 5}},
                                        {.name = "byte", .dtype = DType::uint8, .shape = {}}};

std::string random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void write_all(SafetensorsWriter& writer, unsigned seed) {
  for (std::size_t i = 0; i < writer.entries().size(); ++i) {
    const std::string bytes = random_bytes(writer.entries()[i].bytes(), seed + unsigned(i));
    writer.write(i, as_bytes(bytes));
  }
}

void write_whole_file(const fs::path& path, unsigned seed) {
  SafetensorsWriter writer(path, kEntries, {});
  write_all(writer, seed);
  writer.finish();
}

TEST(SafetensorsWriter, PiecesOfAnySizeAndInTurnsGiveTheSameFile) {
  const TestFolder folder;
  write_whole_file(folder / "whole", 1);
  SafetensorsWriter writer(folder / "pieces", kEntries, {});
  std::vector<std::string> left;
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    left.push_back(random_bytes(writer.entries()[i].bytes(), 1 + unsigned(i)));
  }
  std::mt19937 random(5);
  for (std::size_t to_go = 1; to_go != 0;) {
    const std::size_t i = random() % left.size();
    const std::size_t count = std::min<std::size_t>(left[i].size(), random() % 600);
    writer.write(kEntries[i].name, as_bytes(left[i].substr(0, count)));
    left[i].erase(0, count);
    to_go = std::transform_reduce(left.begin(), left.end(), std::size_t{0}, std::plus<>{},
                                  [](const std::string& rest) { return rest.size(); });
  }
  writer.finish();
  EXPECT_EQ(bytes_of_file(folder / "pieces"), bytes_of_file(folder / "whole"));
}

TEST(SafetensorsWriter, AnyRangeComesBack) {
  const TestFolder folder;
  write_whole_file(folder / "file", 9);
  const SafetensorsReader reader(folder / "file");
  std::mt19937 random(3);
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    const TensorEntry& entry = reader.entry(kEntries[i].name);
    EXPECT_EQ(entry.shape, kEntries[i].shape);
    const std::string bytes = random_bytes(entry.bytes(), 9 + unsigned(i));
    for (int round = 0; round < 50; ++round) {
      const std::size_t begin = random() % (bytes.size() + 1);
      std::string part(random() % (bytes.size() - begin + 1), '\0');
      reader.read(entry.name, begin, std::as_writable_bytes(std::span(part)));
      EXPECT_EQ(part, bytes.substr(begin, part.size()));
    }
  }
}

TEST(SafetensorsWriter, RangesBeyondATensorAreRefused) {
  const TestFolder folder;
  write_whole_file(folder / "file", 9);
  const SafetensorsReader reader(folder / "file");
  std::string part(71, '\0');
  const auto into = std::as_writable_bytes(std::span(part));
  EXPECT_THROW(reader.read("half", 0, into), StateError);
  EXPECT_THROW(reader.read("half", 71, into.first(0)), StateError);
  EXPECT_THROW(reader.read("half", ~std::uint64_t{0}, into.first(2)), StateError);
  EXPECT_THROW(reader.read("halb", 0, into), ConfigError);
  EXPECT_NO_THROW(reader.read("half", 70, into.first(0)));
}

TEST(SafetensorsWriter, EveryTensorMustGetExactlyItsBytes) {
  const TestFolder folder;
  SafetensorsWriter writer(folder / "file", kEntries, {});
  EXPECT_THROW(writer.write("byte", as_bytes("12")), StateError);
  EXPECT_THROW(writer.write("other", as_bytes("1")), StateError);
  EXPECT_THROW(writer.write(4, as_bytes("1")), StateError);
  writer.write("byte", as_bytes("1"));
  EXPECT_THROW(writer.write("byte", as_bytes("2")), StateError);
  EXPECT_TRUE(has(message_thrown<StateError>([&] { writer.finish(); }), "\"big\""));
  EXPECT_FALSE(fs::exists(folder / "file"));
}

TEST(SafetensorsWriter, TheNameAppearsOnlyWithFinish) {
  const TestFolder folder;
  {
    SafetensorsWriter writer(folder / "file", kEntries, {});
    write_all(writer, 1);
    EXPECT_FALSE(fs::exists(folder / "file"));
    EXPECT_TRUE(fs::exists(folder / "file.partial"));
    writer.finish();
    EXPECT_FALSE(fs::exists(folder / "file.partial"));
    EXPECT_THROW(writer.finish(), StateError);
    EXPECT_THROW(writer.write("byte", as_bytes("1")), StateError);
  }
  const std::string before = bytes_of_file(folder / "file");
  { SafetensorsWriter given_up(folder / "file", kEntries, {}); }
  EXPECT_FALSE(fs::exists(folder / "file.partial"));
  EXPECT_EQ(bytes_of_file(folder / "file"), before);
}

TEST(SafetensorsWriter, AWriterThatDiesLeavesTheOldFileAndTheNextOneWorks) {
  const TestFolder folder;
  const auto die = [&] {
    die_in_the_middle_of([&] {
      SafetensorsWriter writer(folder / "file", kEntries, {});
      writer.write("big", as_bytes(random_bytes(5'000, 4)));
      ::_exit(0);
    });
  };
  die();
  EXPECT_FALSE(fs::exists(folder / "file"));
  write_whole_file(folder / "file", 1);
  const std::string before = bytes_of_file(folder / "file");
  die();
  EXPECT_TRUE(fs::exists(folder / "file.partial")) << "the child did not die in the middle";
  EXPECT_EQ(bytes_of_file(folder / "file"), before);
  write_whole_file(folder / "file", 2);
  EXPECT_NE(bytes_of_file(folder / "file"), before);
  EXPECT_NO_THROW(SafetensorsReader(folder / "file"));
}

TEST(SafetensorsWriter, TwoWritersOfOnePathDoNotMix) {
  const TestFolder folder;
  SafetensorsWriter first(folder / "file", kEntries, {});
  EXPECT_TRUE(has(message_thrown<StorageError>(
                      [&] { SafetensorsWriter second(folder / "file", kEntries, {}); }),
                  "another process is writing"));
  write_all(first, 1);
  first.finish();
  EXPECT_NO_THROW(write_whole_file(folder / "file", 2));
}

TEST(SafetensorsWriter, NamesAndShapesThatCannotBeSaved) {
  const TestFolder folder;
  const auto refused = [&](std::vector<TensorEntry> entries, std::string_view says) {
    EXPECT_TRUE(has(message_thrown<ConfigError>(
                        [&] { SafetensorsWriter writer(folder / "file", entries, {}); }),
                    says));
    EXPECT_TRUE(fs::is_empty(folder.path()));
  };
  refused({{.name = "a"}, {.name = "a"}}, "one name");
  refused({{.name = "a", .shape = {-1}}}, "negative");
  refused({{.name = "a", .shape = {1LL << 40, 1LL << 40}}}, "64 bits");
  refused({{.name = "__metadata__"}}, "name of the metadata");
  refused({{.name = "\xff"}}, "cannot be saved");
}

TEST(SafetensorsWriter, LackOfRoomIsToldBeforeWriting) {
  const TestFolder folder;
  struct statvfs status {};
  ASSERT_EQ(::statvfs(folder.path().c_str(), &status), 0);
  const auto free = static_cast<std::int64_t>(status.f_bfree * status.f_frsize);
  // 64 GiB more than there are: others may free some meanwhile.
  const TensorEntry large{.name = "large", .dtype = DType::uint8, .shape = {free + (64LL << 30)}};
  const std::string message =
      message_thrown<StorageError>([&] { SafetensorsWriter writer(folder / "file", {large}, {}); });
  EXPECT_TRUE(has(message, "no room"));
  EXPECT_TRUE(has(message, (folder / "file").string()));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SafetensorsWriter, AFullDiskAndAFileLimitAreStorageErrors) {
  File full = File::open_to_write("/dev/full");
  const std::string message =
      message_thrown<StorageError>([&] { full.write_at(0, as_bytes("x")); });
  EXPECT_TRUE(has(message, "/dev/full (No space left on device); free some space"));

  const TestFolder folder;
  die_in_the_middle_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit { .rlim_cur = 4096, .rlim_max = 4096 };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    SafetensorsWriter writer(folder / "file", kEntries, {});
    try {
      write_all(writer, 1);
    } catch (const StorageError& error) {
      if (std::string_view(error.what()).find("ulimit -f") != std::string_view::npos) return;
    }
    ::_exit(1);
  });
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SafetensorsWriter, UnwritablePlacesAreStorageErrors) {
  const TestFolder folder;
  const auto message_at = [&](const fs::path& path) {
    return message_thrown<StorageError>([&] { SafetensorsWriter writer(path, kEntries, {}); });
  };
  EXPECT_TRUE(has(message_at(folder / "no/file"), "check that the path and its folder exist"));
  put_file(folder / "plain", "");
  EXPECT_TRUE(has(message_at(folder / "plain/file"), "Not a directory"));
  EXPECT_TRUE(has(message_at("/proc/file"), "/proc/file.partial"));
  fs::create_directory(folder / "taken");
  SafetensorsWriter writer(folder / "taken", kEntries, {});
  write_all(writer, 1);
  EXPECT_TRUE(has(message_thrown<StorageError>([&] { writer.finish(); }), "renamed into place"));
}

}  // namespace
}  // namespace zeroshard
