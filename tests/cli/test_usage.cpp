// The command line as a user meets it: help, versions, mistakes.
#include <chrono>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"

namespace zeroshard::test {
namespace {

Finished zeroshard(const std::string& arguments) {
  return run_program(ZEROSHARD_BINARY, arguments);
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}

int lines_of(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Usage, EveryVerbHasHelpWithAnExample) {
  for (const char* verb : {"", "train", "generate", "config", "config check", "config explain",
                           "config keys", "plan", "run", "completion", "help"}) {
    const Finished help = zeroshard(std::string(verb) + " --help");
    EXPECT_EQ(help.exit_code, 0) << verb;
    expect_contains(help.out, "Example:\n");
    expect_contains(help.out, std::string("zeroshard ") + verb);
    EXPECT_EQ(help.err, "");
  }
}

TEST(Usage, HelpIsAVerbToo) {
  EXPECT_EQ(zeroshard("help").out, zeroshard("--help").out);
  for (const char* verb : {"train", "plan", "run", "config", "config check", "help"}) {
    const Finished help = zeroshard(std::string("help ") + verb);
    EXPECT_EQ(help.exit_code, 0) << help.err;
    EXPECT_EQ(help.out, zeroshard(std::string(verb) + " --help").out) << verb;
  }
  // The hidden verb that mpirun starts has no help, and what stands behind `run` is not started.
  EXPECT_EQ(zeroshard("help guard").exit_code, 2);
  EXPECT_EQ(zeroshard("help run /bin/true").exit_code, 2);
}

TEST(Usage, VersionNamesEverything) {
  const Finished version = zeroshard("--version");
  EXPECT_EQ(version.exit_code, 0);
  for (const char* word : {"zeroshard 0.", "\ntorch ", "\nMPI ", "\nCUDA "}) {
    expect_contains(version.out, word);
  }
  const Finished git =
      run_program("/usr/bin/git", "-C " ZEROSHARD_SOURCE_DIR " rev-parse --short=12 HEAD");
  const bool in_repository = git.exit_code == 0;
  expect_contains(version.out, "commit " + (in_repository ? git.out.substr(0, 12) : "none"));
}

struct Mistake {
  const char* arguments;
  const char* says;
};

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, EndWithTwoAndOneSentence) {
  const Finished finished = zeroshard(GetParam().arguments);
  EXPECT_EQ(finished.exit_code, 2) << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(lines_of(finished.err), 1) << finished.err;
  expect_contains(finished.err, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Usage, Mistakes,
    testing::Values(
        Mistake{"config check --stric x.json", "unknown option: --stric; did you mean --strict?"},
        Mistake{"plan --params 1e9 --world-siz 4", "did you mean --world-size?"},
        Mistake{"plan --params 1e9 --jsno", "did you mean --json?"},
        Mistake{"--log-leve info plan --params 1", "did you mean --log-level?"},
        Mistake{"plam --params 1e9", "unknown verb: plam; did you mean plan?"},
        Mistake{"--log-level info plam", "unknown verb: plam; did you mean plan?"},
        Mistake{"-x", "unknown option: -x"},
        Mistake{"help trian", "unknown verb: trian; did you mean train?"},
        Mistake{"help config chekc", "unknown verb: chekc; did you mean check?"},
        Mistake{"config chekc x.json", "unknown verb: chekc; did you mean check?"},
        Mistake{"", "[usage]"}, Mistake{"config", "[usage]"},
        Mistake{"plan", "there is no model to plan for"},
        Mistake{"plan --params 1e9 --world-size 0", "--world-size"},
        Mistake{"plan --params 1e9 --world-size two", "--world-size"},
        Mistake{"plan --params lots", "--params"}, Mistake{"plan --params -5", "--params"},
        Mistake{"--log-level loud plan --params 1", "--log-level"},
        Mistake{"completion tcsh", "tcsh"},
        Mistake{"plan --params 1e9 --config /nowhere/ds.json", "/nowhere/ds.json"},
        Mistake{"config explain /nowhere/ds.json", "/nowhere/ds.json"},
        Mistake{"plan --params 1e30", "--params is too large"},
        Mistake{"plan --params 1e9 --device-memory ''", "--device-memory: expected a value"},
        Mistake{"plan --params 1e9 --config=", "--config"},
        Mistake{"train --config ''", "--config: expected a value, not \"\""},
        Mistake{"train --model /tmp --device cpu", "no config.json in the model's folder"},
        Mistake{"plan --model /dev/zero", "more than 1 MiB"},
        Mistake{"config explain /", "cannot read"}));

TEST(Usage, ABadLogVariableIsNamed) {
  const Finished finished =
      run_program("/usr/bin/env", "ZEROSHARD_LOG=shout " ZEROSHARD_BINARY " plan --params 1e6");
  EXPECT_EQ(finished.exit_code, 2);
  expect_contains(finished.err, "ZEROSHARD_LOG");
}

TEST(Usage, VersionAndHelpAnswerWhateverTheEnvironmentSays) {
  for (const char* asked : {" --version", " --help"}) {
    EXPECT_EQ(
        run_program("/usr/bin/env", std::string("ZEROSHARD_LOG=shout " ZEROSHARD_BINARY) + asked)
            .exit_code,
        0);
  }
}

TEST(Usage, LostOutputIsAFailure) {
  for (const char* asked : {"--help", "plan --params 1e9", "config keys", "completion fish"}) {
    const Finished finished =
        run_program("/bin/sh", std::string("-c '" ZEROSHARD_BINARY " ") + asked + " >/dev/full'");
    EXPECT_EQ(finished.exit_code, 1) << asked;
    expect_contains(finished.err, "[storage] cannot write to standard output");
  }
}

TEST(Usage, ARepeatedOptionTakesTheLast) {
  EXPECT_EQ(
      zeroshard("plan --device-memory H100 --params 1e6 --params 2e6 --world-size 8 --world-size 2")
          .out,
      zeroshard("plan --device-memory H100 --params 2e6 --world-size 2").out);
}

TEST(Usage, LogLevelMayStandBehindTheVerb) {
  EXPECT_EQ(zeroshard("plan --params 1e6 --log-level error").exit_code, 0);
  EXPECT_EQ(zeroshard("--log-level debug:all plan --params 1e6").exit_code, 0);
}

TEST(Usage, LinksNoTorchAndNoMpi) {
  const Finished libraries = run_program("/usr/bin/ldd", ZEROSHARD_BINARY);
  ASSERT_EQ(libraries.exit_code, 0) << libraries.err;
  for (const char* name : {"torch", "c10", "mpi", "cuda"}) {
    EXPECT_EQ(libraries.out.find(std::string("lib") + name), std::string::npos) << libraries.out;
  }
}

TEST(Completion, BashOffersVerbsAndOptions) {
  const TemporaryFile script(zeroshard("completion bash").out);
  const auto offers = [&](const std::string& words, int at) {
    return run_program("/bin/bash", "-c 'source " + script.path() + "; COMP_WORDS=(" + words +
                                        "); COMP_CWORD=" + std::to_string(at) +
                                        "; _zeroshard; echo \"${COMPREPLY[@]}\"'")
        .out;
  };
  EXPECT_EQ(offers("zeroshard pl", 1), "plan\n");
  EXPECT_EQ(offers("zeroshard config \"\"", 2), "check explain keys\n");
  EXPECT_EQ(offers("zeroshard config check --st", 3), "--strict\n");
  EXPECT_EQ(offers("zeroshard plan --wor", 2), "--world-size\n");
  EXPECT_EQ(offers("zeroshard tr", 1), "train\n");
  EXPECT_EQ(offers("zeroshard gen", 1), "generate\n");
  EXPECT_EQ(offers("zeroshard train --eval-", 2), "--eval-data --eval-every\n");
  EXPECT_EQ(offers("zeroshard generate --to", 2), "--top-k\n");
  // A file name already typed does not hide the verb's options.
  EXPECT_EQ(offers("zeroshard config check some.json --js", 4), "--json\n");
}

TEST(Completion, FishAndZshNameEveryVerb) {
  for (const char* shell : {"fish", "zsh"}) {
    const Finished script = zeroshard(std::string("completion ") + shell);
    EXPECT_EQ(script.exit_code, 0);
    for (const char* verb :
         {"train", "generate", "config", "plan", "check", "explain", "keys", "completion"}) {
      expect_contains(script.out, verb);
    }
  }
}

}  // namespace
}  // namespace zeroshard::test
