// CSV files as DeepSpeed lays them out, and the monitor that feeds all sinks.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/monitor/monitor_support.h"
#include "zeroshard/monitor/csv.h"
#include "zeroshard/monitor/monitor.h"

namespace zeroshard {
namespace {

using testing::read_text;
using testing::TemporaryFolder;

void write_one(CsvWriter& csv, std::int64_t step, std::string_view tag, double value) {
  const Scalar scalar{tag, value};
  csv.write(step, {&scalar, 1});
}

MonitorOptions both_in(const std::string& folder) {
  MonitorOptions options;
  options.tensorboard = {.enabled = true, .output_path = folder, .job_name = "events"};
  options.csv = {.enabled = true, .output_path = folder, .job_name = "tables"};
  return options;
}

TEST(Csv, FilesAreNamedAsInDeepSpeed) {
  EXPECT_EQ(csv_file_name("Train/Samples/lr"), "Train_Samples_lr.csv");
  EXPECT_EQ(csv_file_name("Train/my loss"), "Train_my_loss.csv");
}

TEST(Csv, AHeaderThenRows) {
  const TemporaryFolder folder;
  CsvWriter csv(folder / "job");
  write_one(csv, 64, "Train/Samples/lr", 0.1);
  write_one(csv, 128, "Train/Samples/lr", 1.0 / 3);
  EXPECT_EQ(read_text(folder / "job/Train_Samples_lr.csv"),
            "step,lr\n64,0.1\n128,0.3333333333333333\n");
}

TEST(Csv, AResumedRunGoesOnWithTheRows) {
  const TemporaryFolder folder;
  for (const int step : {1, 2}) {
    CsvWriter csv(folder.path());
    write_one(csv, step, "loss", step);
  }
  EXPECT_EQ(read_text(folder / "loss.csv"), "step,loss\n1,1\n2,2\n");
}

TEST(Csv, OddNamesAndValuesDoNotBreakRows) {
  const TemporaryFolder folder;
  CsvWriter csv(folder.path());
  write_one(csv, 1, "Train/a,\"b\"", std::nan(""));
  write_one(csv, 2, "Train/a,\"b\"", -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read_text(folder / "Train_a,\"b\".csv"), "step,\"a,\"\"b\"\"\"\n1,nan\n2,-inf\n");
}

TEST(Csv, TwoSeriesNeverShareAFile) {
  const TemporaryFolder folder;
  CsvWriter csv(folder.path());
  write_one(csv, 1, "a/b", 1);
  EXPECT_THROW(write_one(csv, 1, "a_b", 1), StateError);
  write_one(csv, 2, "a/b", 2);
  EXPECT_EQ(read_text(folder / "a_b.csv"), "step,b\n1,1\n2,2\n");
}

TEST(Csv, ATooLongNameIsOneSentence) {
  const TemporaryFolder folder;
  CsvWriter csv(folder.path());
  const std::string error =
      testing::storage_error_of([&] { write_one(csv, 1, std::string(300, 'x'), 1); });
  EXPECT_NE(error.find("choose a shorter name"), std::string::npos) << error;
}

TEST(Monitor, WithoutSinksIsQuiet) {
  Monitor monitor(MonitorOptions{});
  EXPECT_FALSE(monitor.enabled());
  monitor.write(1, {{tags::kTrainLoss, 1.0}});
}

TEST(Monitor, FeedsEnabledSinks) {
  const TemporaryFolder folder;
  Monitor monitor(both_in(folder.path()));
  EXPECT_TRUE(monitor.enabled());
  monitor.write(64, {{tags::kTrainLoss, 2.5}, {tags::kLearningRate, 1e-4}});
  EXPECT_EQ(read_text(folder / "tables/Train_Samples_train_loss.csv"), "step,train_loss\n64,2.5\n");
  EXPECT_EQ(read_text(folder / "tables/Train_Samples_lr.csv"), "step,lr\n64,0.0001\n");
  const auto events = testing::names_in(folder / "events");
  ASSERT_EQ(events.size(), 1U);
  const std::string bytes = read_text(folder / "events" + "/" + events[0]);
  EXPECT_NE(bytes.find("Train/Samples/train_loss"), std::string::npos);
}

TEST(Monitor, OneFullDiskDoesNotStarveTheOtherSink) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "tables");
  std::filesystem::create_symlink("/dev/full", folder / "tables/Train_Samples_lr.csv");
  Monitor monitor(both_in(folder.path()));
  const std::string error = testing::storage_error_of([&] {
    monitor.write(1, {{tags::kLearningRate, 1.0}});
  });
  EXPECT_NE(error.find("No space left on device"), std::string::npos) << error;
  const auto events = testing::names_in(folder / "events");
  ASSERT_EQ(events.size(), 1U);
  const std::string bytes = read_text(folder / "events" + "/" + events[0]);
  EXPECT_NE(bytes.find("Train/Samples/lr"), std::string::npos);
}

TEST(Monitor, AWrongPathIsAnErrorBeforeTheFirstStep) {
  const TemporaryFolder folder;
  testing::write_text(folder / "file", "");
  MonitorOptions options;
  options.csv = {.enabled = true, .output_path = folder / "file"};
  EXPECT_THROW(Monitor{options}, StorageError);
}

}  // namespace
}  // namespace zeroshard
