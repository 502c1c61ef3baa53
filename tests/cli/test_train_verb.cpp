// `zeroshard train` and `zeroshard generate` as far as they need no torch: every mistake is one
// sentence before a rank is started, and the words that the ranks get are the right ones.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"
#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard::test {
namespace {

namespace fs = std::filesystem;

// Nor with GPUs, which would each get a rank.
constexpr const char* kWithoutLauncher =
    "-u OMPI_COMM_WORLD_SIZE -u SLURM_STEP_NUM_TASKS -u WORLD_SIZE -u TORCHELASTIC_RUN_ID "
    "-u ZEROSHARD_LOG CUDA_VISIBLE_DEVICES= ";

// A folder with `bin/zeroshard` and a training program that says only how it was called.
class TrainVerb : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "bin");
    fs::create_directories(root_ / "libexec/zeroshard");
    fs::copy_file(ZEROSHARD_BINARY, root_ / "bin/zeroshard");
    write_program("bin/zeroshard-train", "beside");
    write("text", std::string(2000, 'a'));
    write("small.json", R"({"train_batch_size": 8})");
  }

  void TearDown() override { chmod((root_ / "locked").c_str(), 0755); }

  std::string write(const std::string& name, const std::string& contents) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << contents;
    return path(name);
  }

  using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

  // A folder with such tensors, all zeros.
  void write_weights(const std::string& folder, const Shapes& shapes) const {
    std::vector<TensorEntry> entries;
    for (const auto& [name, shape] : shapes) entries.push_back({.name = name, .shape = shape});
    fs::create_directories(root_ / folder);
    SafetensorsWriter writer(root_ / folder / "model.safetensors", entries, {});
    for (std::size_t i = 0; i < entries.size(); ++i) {
      writer.write(i, std::vector<std::byte>(writer.entries()[i].bytes()));
    }
    writer.finish();
  }

  std::string path(const std::string& name) const { return (root_ / name).string(); }

  // Each word in brackets, so that one can see where it ends.
  void write_program(const std::string& name, const std::string& says) const {
    write(name, "#!/bin/sh\nprintf '" + says +
                    "'\nfor word; do printf ' <%s>' \"$word\"; done\n"
                    "echo \" log=$ZEROSHARD_LOG\"\n");
    fs::permissions(root_ / name, fs::perms::owner_all);
  }

  Finished run(const std::string& arguments, const std::string& variables = "") const {
    return run_program("/usr/bin/env", kWithoutLauncher + variables + " sh -c 'cd " + path("") +
                                           " && exec bin/zeroshard " + arguments + "'");
  }

  // One sentence, and no rank has said anything.
  void expect_refused(const std::string& arguments, const std::string& says,
                      int exit_code = 2) const {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit_code, exit_code) << finished.err;
    EXPECT_EQ(finished.out, "") << arguments;
    EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos)
        << "missing: " << says << "\nin: " << finished.err;
  }

  const TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(TrainVerb, BecomesTheTrainingProgramWithTheSameWords) {
  const Finished finished =
      run("train --config small.json --data text --steps 5 --model gpt:layers=1 --out \"a b\" "
          "--log-level debug");
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(finished.out,
            "beside <train> <--config=small.json> <--model=gpt:layers=1> <--data=text> "
            "<--steps=5> <--out=a b> log=debug\n");
}

TEST_F(TrainVerb, FindsTheProgramOfAnInstalledTree) {
  fs::remove(root_ / "bin/zeroshard-train");
  expect_refused("train --data text", "bin/zeroshard-train; this build has no torch");
  write_program("libexec/zeroshard/zeroshard-train", "installed");
  EXPECT_EQ(run("train --data text").out, "installed <train> <--data=text> log=\n");
  EXPECT_NE(run("env").out.find("libexec/zeroshard/zeroshard-train"), std::string::npos);
}

TEST_F(TrainVerb, SeveralRanksGoThroughMpirun) {
  write_program("mpirun", "mpirun");
  const std::string variables = "PATH=" + path("") + ":/usr/bin:/bin";
  const Finished finished = run("train --ranks 4 --config small.json --data text", variables);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  const std::string end = "<-n> <4> <" + path("bin/zeroshard") + "> <guard> <" +
                          path("bin/zeroshard-train") +
                          "> <train> <--config=small.json> <--data=text> log=\n";
  EXPECT_TRUE(finished.out.starts_with("mpirun ")) << finished.out;
  EXPECT_TRUE(finished.out.ends_with(end)) << finished.out;
  expect_refused("train --ranks 2 --hostfile none --config small.json --data text",
                 "no such hostfile: none");
}

TEST_F(TrainVerb, OnlyRankZeroOfAnOuterLauncherChecks) {
  const auto rank = [&](const std::string& number, const std::string& arguments) {
    return run("train " + arguments, "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=" + number);
  };
  const std::string uneven = "--config small.json --data text";
  const Finished first = rank("0", uneven);
  EXPECT_EQ(first.exit_code, 2);
  EXPECT_EQ(first.out, "");
  EXPECT_EQ(std::ranges::count(first.err, '\n'), 1) << first.err;
  const Finished other = rank("1", uneven);
  EXPECT_EQ(other.err, "");
  EXPECT_EQ(other.out, "beside <train> <--config=small.json> <--data=text> log=\n");
  EXPECT_EQ(rank("0", "--data text").out, "beside <train> <--data=text> log=\n");
  EXPECT_NE(rank("0", "--ranks 2 --data text").err.find("--ranks 2, 3 ranks"), std::string::npos);
  const Finished torchrun = run("train --data text", "WORLD_SIZE=2 RANK=0 TORCHELASTIC_RUN_ID=x");
  EXPECT_EQ(torchrun.exit_code, 2);
  EXPECT_NE(torchrun.err.find("zeroshard train --ranks 2 ..."), std::string::npos) << torchrun.err;
}

TEST_F(TrainVerb, WarningsOfTheConfigAreShownAndErrorsEndIt) {
  write("warns.json", R"({"train_batch_size": 8, "team": "blue"})");
  const Finished finished = run("train --config warns.json --data text");
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_NE(finished.err.find("warns.json:1:25: warning: [config] team"), std::string::npos)
      << finished.err;
  expect_refused("train --config warns.json --data text --strict",
                 "warns.json:1:25: error: [config] team");
  write("stage.json", R"({"zero_optimization": {"stage": 7}})");
  expect_refused("train --config stage.json --data text", "expected an integer from 0 to 3");
  expect_refused("train --config none.json --data text", "none.json");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  expect_refused("train --config pipe --data text", "the config file is a pipe");
  expect_refused("train --ranks 3 --config small.json --data text", "train_batch_size");
}

TEST_F(TrainVerb, ModelsThatCannotBe) {
  expect_refused("train --data text --model gpt:hidden=100,heads=3",
                 "hidden is no multiple of its heads: 100 and 3");
  expect_refused("train --data text --model gpt:layer=3", "did you mean layers?");
  expect_refused("train --data text --model gtp:", "did you mean gpt?");
  expect_refused("train --data text --model none.json", "there is no such model: none.json");
  expect_refused("train --model dense:inputs=2", "inputs=2, outputs=1; give dense:inputs=1");
  EXPECT_EQ(run("train --model dense:").out, "beside <train> <--model=dense:> log=\n");
}

TEST_F(TrainVerb, DataThatCannotBeUsed) {
  write("empty", "");
  write("short", std::string(128, 'a'));
  write("odd", std::string(1001, 'a'));
  write("great", std::string(1000, '\xff'));
  expect_refused("train", "there is nothing to train on; give one or more files with --data");
  expect_refused("train --data none", "no such data file: none");
  expect_refused("train --data text empty", "the data file is empty: empty");
  expect_refused("train --data bin", "the data file is a folder: bin");
  expect_refused("train --data short", "shorter than a sample");
  expect_refused("train --data text --model gpt:seq=2000", "shorter than a sample");
  EXPECT_EQ(run("train --data text --model gpt:seq=1999").exit_code, 0);
  expect_refused("train --data odd --data-format u16", "no multiple of 2");
  expect_refused("train --data great --data-format u16", "token 65535 is beyond the vocabulary");
  expect_refused("train --data text --model gpt:vocab=255",
                 "text needs a vocabulary of 256, one token for each byte: vocab=255");
  EXPECT_EQ(run("train --data text --data-format u16 --model gpt:vocab=24930").exit_code, 0);
  expect_refused("train --data text --eval-data none", "no such data file: none");
  expect_refused("train --data text --eval-data short", "shorter than a sample");
  for (const char* option : {"--data text", "--eval-data text", "--data-format u16"}) {
    expect_refused(std::string("train --model dense: ") + option,
                   "a dense network makes its own data, y = 2x + 1: --");
  }
}

TEST_F(TrainVerb, PathsThatCannotBeWritten) {
  expect_refused("train --data text --log none/l.jsonl", "there is no folder for --log: none");
  expect_refused("train --data text --trace none/t", "there is no folder for --trace: none");
  expect_refused("train --data text --out none/out", "there is no folder for --out: none");
  expect_refused("train --data text --log bin", "--log is to be a file, and here is a folder: bin");
  expect_refused("train --data text --out text", "--out is to be a folder, and here is none");
  expect_refused("train --data text --out bin", "--out is a folder that holds something else");
  expect_refused("train --data text --log l --trace ./l", "--trace would overwrite --log");
  expect_refused("train --data text --log text", "--log would overwrite --data");
  write("old/config.json", "{}");
  write("old/model.safetensors", "x");
  fs::create_directory(root_ / "new");
  for (const char* fine : {"--out old", "--out new", "--out new/", "--out other", "--log l.jsonl",
                           "--log /dev/null", "--trace new/t.json"}) {
    EXPECT_EQ(run(std::string("train --data text ") + fine).exit_code, 0) << fine;
  }
  EXPECT_FALSE(fs::exists(root_ / "l.jsonl"));
  EXPECT_FALSE(fs::exists(root_ / "other"));
}

TEST_F(TrainVerb, FoldersWithoutTheRightToWrite) {
  write("locked/log", "kept");
  chmod(path("locked/log").c_str(), 0444);
  chmod(path("locked").c_str(), 0555);
  // The rights of files do not bind root, unless it gives that up.
  const std::string drop = geteuid() == 0 ? "/usr/bin/setpriv --bounding-set=-dac_override " : "";
  if (run_program("/bin/sh", "-c '" + drop + "true'").exit_code != 0) GTEST_SKIP() << "no setpriv";
  for (const auto& [arguments, says] :
       {std::pair{"--log locked/l", "[storage] cannot write into the folder of --log: locked"},
        std::pair{"--log locked/log", "[storage] cannot write --log: locked/log"},
        std::pair{"--trace locked/t", "[storage] cannot write into the folder of --trace"},
        std::pair{"--out locked/o", "[storage] cannot write into the folder of --out"}}) {
    const Finished finished =
        run_program("/bin/sh", "-c 'cd " + path("") + " && exec " + drop +
                                   "bin/zeroshard train --data text " + arguments + "'");
    EXPECT_EQ(finished.exit_code, 1) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << finished.err;
  }
}

TEST_F(TrainVerb, InitMustHoldAModel) {
  fs::create_directory(root_ / "bare");
  expect_refused("train --data text --init none", "--init is no folder: none");
  expect_refused("train --data text --init bare", "--init has no model.safetensors: bare");
  write("bare/model.safetensors", "x");
  expect_refused("train --data text --init bare", "there is no such model: bare");
  expect_refused("train --data text --init bare --model gpt:", "model.safetensors", 1);
  write("bare/config.json", R"({"model_type": "gpt", "sequence": 2000})");
  expect_refused("train --data text --init bare", "shorter than a sample");
}

TEST_F(TrainVerb, InitMustHoldTheModelAndNothingElse) {
  write_weights("line", {{"layers.0.weight", {1, 1}}, {"layers.0.bias", {1}}});
  write("line/config.json", R"({"model_type": "dense"})");
  EXPECT_EQ(run("train --init line").exit_code, 0) << run("train --init line").err;
  expect_refused("train --init line --model dense:hidden=8",
                 "layers.0.weight is [1, 1], the model wants [8, 1]; leave out --model");
  write_weights("less", {{"layers.0.weight", {1, 1}}});
  expect_refused("train --init less --model dense:",
                 "the weights lack a tensor of the model, layers.0.bias: less");
  write_weights("more", {{"layers.0.weight", {1, 1}}, {"layers.0.bias", {1}}, {"extra", {3}}});
  expect_refused("train --init more --model dense:",
                 "[config] the weights are of another model, with 1 tensor more: extra in more");
  write_weights("many",
                {{"a", {1}}, {"layers.0.weight", {1, 1}}, {"layers.0.bias", {1}}, {"b", {3}}});
  expect_refused("train --ranks 2 --init many --model dense:",
                 "with 2 tensors more: a, ... in many");
}

TEST_F(TrainVerb, ABatchNeedsItsSamples) {
  write("two", std::string(257, 'a'));
  write("sixteen.json", R"({"train_batch_size": 16})");
  write("billion.json", R"({"train_batch_size": 1000000000})");
  expect_refused("train --config sixteen.json --data two",
                 "[config] a step takes more samples than there are: batch 16, 2 samples in the "
                 "data; give more data, a smaller batch (--batch-size) or a shorter sequence");
  expect_refused("train --config billion.json --data text", "batch 1000000000, 15 samples");
  expect_refused("train --batch-size 1e9 --data text", "batch 1000000000, 15 samples");
  expect_refused("train --batch-size 1001 --model dense:", "batch 1001, 1000 samples in the data");
  EXPECT_EQ(run("train --config sixteen.json --data two --batch-size 2").exit_code, 0);
  EXPECT_EQ(run("train --config sixteen.json --data two --model gpt:seq=16").exit_code, 0);
  EXPECT_EQ(run("train --data two").exit_code, 0) << "the default batch follows the data";
}

TEST_F(TrainVerb, AnotherBatchSizeIsCheckedInPlaceOfTheFiles) {
  write_program("mpirun", "mpirun");
  const std::string variables = "PATH=" + path("") + ":/usr/bin:/bin";
  expect_refused("train --ranks 3 --config small.json --data text", "train_batch_size");
  const Finished finished =
      run("train --ranks 3 --config small.json --data text --batch-size 9 --lr 1e-3", variables);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_NE(finished.out.find("<--lr=0.001"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("<--batch-size=9>"), std::string::npos) << finished.out;
  expect_refused("train --ranks 3 --config small.json --data text --batch-size 8",
                 "[config] 8 cannot be divided by 3 ranks");
  write("cycle.json", R"({"scheduler": {"type": "OneCycle",
                          "params": {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3}}})");
  expect_refused("train --config cycle.json --data text --lr 0.1",
                 "--lr 0.1 with OneCycle; set cycle_max_lr in the config, or leave out --lr");
}

// In a mount namespace of its own, with a small disk on `disk`.
TEST_F(TrainVerb, ADiskWithoutRoomForTheWeights) {
  fs::create_directory(root_ / "disk");
  const std::string mount =
      "unshare -rm sh -c \"mount -t tmpfs -o size=64k none " + path("disk") + " && ";
  if (run_program("/bin/sh", "-c '" + mount + "true\"'").exit_code != 0) GTEST_SKIP();
  const auto train = [&](const std::string& arguments) {
    return run_program("/bin/sh", "-c '" + mount + "cd " + path("") +
                                      " && exec bin/zeroshard train " + arguments + "\"'");
  };
  const Finished full = train("--data text --device cpu --out disk/model");
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_NE(full.err.find("[storage] there is no room for --out: the weights take 3.3"),
            std::string::npos)
      << full.err;
  EXPECT_NE(full.err.find("and 64.00 KiB are free: " + path("disk")), std::string::npos)
      << full.err;
  EXPECT_EQ(full.out, "");
  EXPECT_EQ(train("--model dense: --out disk/model").exit_code, 0);
  const Finished itself = train("--model dense: --out disk");
  EXPECT_EQ(itself.exit_code, 2);
  EXPECT_NE(
      itself.err.find("--out is where a disk is mounted, and cannot be replaced: disk; name a "
                      "folder in it, such as disk/model"),
      std::string::npos)
      << itself.err;
}

TEST_F(TrainVerb, PlacesThatTakeNothing) {
  for (const char* option : {"--out", "--log", "--trace"}) {
    expect_refused(std::string("train --data text ") + option + " /proc/model",
                   "[storage] cannot write", 1);
  }
  const std::string longest(255, 'n');
  expect_refused("train --data text --out " + longest, "File name too long", 1);
  EXPECT_EQ(run("train --data text --log " + longest).exit_code, 0);
  write("kept", "trace");
  EXPECT_EQ(run("train --data text --trace kept").exit_code, 0);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(root_)) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"bin", "kept", "libexec", "small.json", "text"}));
}

TEST_F(TrainVerb, GenerateChecksItsFolderFirst) {
  expect_refused("generate none", "the model to generate with is no folder: none");
  expect_refused("generate bin", "the model to generate with has no model.safetensors: bin");
  write("gpt/model.safetensors", "x");
  expect_refused("generate gpt", "there is no such model: gpt/config.json");
  write("gpt/config.json", R"({"model_type": "gpt"})");
  EXPECT_EQ(run("generate gpt --prompt \"-1 a\" --count 3 --temperature 0.5").out,
            "beside <generate> <--prompt=-1 a> <--count=3> <--temperature=0.5> <--> <gpt> log=\n");
  expect_refused("generate gpt --prompt \"\"", "the prompt is empty");
  write("line/model.safetensors", "x");
  write("line/config.json", R"({"model_type": "dense"})");
  expect_refused("generate line", "only a gpt generates text: line, a dense network");
  write("line/config.json", R"({"model_type": "gpt", "vocabulary": 200})");
  expect_refused("generate line", "text needs a vocabulary of 256");
  const Finished two = run("generate gpt", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0");
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_NE(two.err.find("runs on one rank"), std::string::npos) << two.err;
}

TEST_F(TrainVerb, UsageMistakes) {
  expect_refused("train --step 5", "unknown option: --step; did you mean --steps?");
  expect_refused("train --steps 0", "--steps: expected a whole number from 1");
  expect_refused("train --steps 5 --epochs 1", "excludes");
  expect_refused("train --device gpu", "expected cpu, cuda or cuda:N");
  expect_refused("train --ranks 0", "--ranks");
  expect_refused("generate", "DIR is required");
  expect_refused("trian", "unknown verb: trian; did you mean train?");
}

}  // namespace
}  // namespace zeroshard::test
