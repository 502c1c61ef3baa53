// `zeroshard checkpoint`: what each verb prints, and its exit code.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/checkpoint/saved_model.h"
#include "tests/support/run_program.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::cli {
namespace {

namespace fs = std::filesystem;

test::Finished checkpoint(const std::string& arguments) {
  return test::run_program(ZEROSHARD_BINARY, "checkpoint " + arguments);
}

class CheckpointVerb : public testing::Test {
 protected:
  void SetUp() override {
    run_ranks(2, {}, [&](Communicator& comm) {
      SaveFolder to(comm, runs());
      for (const char* tag : {"global_step1", "global_step2"}) save(to, {.tag = tag}, model_, comm);
    });
  }

  std::string runs() const { return folder_ / "runs"; }
  void damage() const {
    const fs::path file = runs() + "/global_step2/rank_00001.safetensors";
    std::string bytes = bytes_of_file(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    put_file(file, bytes);
  }

  const TestFolder folder_;
  const SavedModel model_ = SavedModel::random(77, 8, 3000);
};

TEST_F(CheckpointVerb, InspectSaysWhatIsThere) {
  const test::Finished root = checkpoint("inspect " + runs());
  EXPECT_EQ(root.exit_code, 0) << root.err;
  for (const char* part : {"global_step2", "saved 20", "by 2 ranks, with zeroshard test", "2 files",
                           "data_seed 18446744073709551615", "step 200", "with config.json",
                           "layers.7.weight", "tied.weight", "value F32, exp_avg F32"}) {
    EXPECT_TRUE(has(root.out, part));
  }
  EXPECT_EQ(checkpoint("inspect " + runs() + "/global_step1").exit_code, 0);
  const test::Finished none = checkpoint("inspect " + (folder_ / "none").string());
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(has(none.err, "[config] there is no checkpoint here"));
}

TEST_F(CheckpointVerb, InspectForPrograms) {
  const test::Finished finished = checkpoint("inspect " + runs() + " --json");
  rapidjson::Document json;
  json.Parse(finished.out.c_str());
  ASSERT_FALSE(json.HasParseError()) << finished.out;
  EXPECT_STREQ(json["tag"].GetString(), "global_step2");
  EXPECT_EQ(json["ranks"].GetInt(), 2);
  EXPECT_EQ(json["run"]["data_seed"].GetUint64(), ~std::uint64_t{0});
  EXPECT_EQ(json["files"].Size(), 2U);
  EXPECT_EQ(json["tensors"].Size(), model_.tensors.size());
  EXPECT_EQ(json["tensors"][3]["shape"].Size(), model_.tensors[3].shape.size());
  EXPECT_STREQ(json["tensors"][0]["states"]["value"]["dtype"].GetString(),
               model_.contents(0, 1).states[0].dtype.name().data());
}

TEST_F(CheckpointVerb, VerifyNamesTheDamagedFileAndTensor) {
  const test::Finished sound = checkpoint("verify " + runs());
  EXPECT_EQ(sound.exit_code, 0) << sound.err;
  EXPECT_TRUE(has(sound.out, "global_step2 is complete: 2 files"));
  damage();
  const test::Finished damaged = checkpoint("verify " + runs());
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_TRUE(has(damaged.out, "rank_00001.safetensors is damaged in bytes 0 to "));
  EXPECT_TRUE(has(damaged.out, " of layers."));
  EXPECT_TRUE(has(damaged.err, "[storage] this checkpoint is damaged"));
  rapidjson::Document json;
  json.Parse(checkpoint("verify --json " + runs()).out.c_str());
  ASSERT_FALSE(json.HasParseError());
  EXPECT_FALSE(json["is_sound"].GetBool());
  EXPECT_STREQ(json["damaged"][0]["file"].GetString(), "rank_00001.safetensors");
  EXPECT_EQ(checkpoint("verify " + runs() + "/global_step1").exit_code, 0);
}

TEST_F(CheckpointVerb, ExportWritesAModelThatTheOthersRead) {
  const std::string out = folder_ / "out";
  const test::Finished finished = checkpoint("export " + runs() + " " + out + " --max-shard 10KB");
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "wrote " + out + ": 8 tensors in "));
  EXPECT_TRUE(has(finished.out, "and config.json"));
  EXPECT_TRUE(has(checkpoint("inspect " + out).out, "a HuggingFace model"));
  EXPECT_TRUE(has(checkpoint("verify " + out).out, "have no checksums"));
  EXPECT_EQ(checkpoint("export " + runs() + " " + out + " --dtype int8").exit_code, 2);
  EXPECT_EQ(checkpoint("export " + runs() + " " + out + " --max-shard 0").exit_code, 2);
}

TEST_F(CheckpointVerb, DiffEndsWithOneWhereStatesDiffer) {
  const std::string one = runs() + "/global_step1", two = runs() + "/global_step2";
  const test::Finished same = checkpoint("diff " + one + " " + two);
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_TRUE(has(same.out, "nothing differs"));
  run_ranks(1, {}, [&](Communicator& comm) {
    SavedModel other = model_;
    other.seed += 1;
    SaveFolder to(comm, folder_ / "other");
    save(to, {.tag = "a"}, other, comm);
  });
  const test::Finished differs = checkpoint("diff " + one + " " + (folder_ / "other").string());
  EXPECT_EQ(differs.exit_code, 1);
  EXPECT_TRUE(has(differs.out, "elements differ, the first is 0"));
  rapidjson::Document json;
  json.Parse(checkpoint("diff --json " + one + " " + (folder_ / "other").string()).out.c_str());
  ASSERT_FALSE(json.HasParseError());
  EXPECT_FALSE(json["same_states"].GetBool());
}

}  // namespace
}  // namespace zeroshard::cli
