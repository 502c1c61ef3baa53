// People's files: the reader's verdict on each is the one of corpus_verdicts.tsv, which was written
// from the reference by looking at each file.

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/config/config_support.h"
#include "tests/config/seed_files.h"
#include "zeroshard/config/summary.h"

namespace zeroshard::config {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = ZEROSHARD_SOURCE_DIR;

struct Verdict {
  std::string word;  // accept, warn, reject
  std::string key;   // the one that decides; "(syntax)", or "-" where nothing is wrong
  bool operator==(const Verdict&) const = default;
};

void PrintTo(const Verdict& verdict, std::ostream* out) {
  *out << verdict.word << ' ' << verdict.key;
}

// The first problem of the worst severity decides; of one severity they come in the file's order.
Verdict verdict_on(const ReadResult& read) {
  const Severity worst = read.report.has_errors() ? Severity::error : Severity::warning;
  for (const Problem& problem : read.report.problems()) {
    if (problem.severity != worst) continue;
    return {worst == Severity::error ? "reject" : "warn",
            problem.key.empty() ? "(syntax)" : problem.key};
  }
  return {"accept", "-"};
}

std::string all_of(const ReadResult& read) {
  std::string text;
  for (const Problem& problem : read.report.problems()) text += format_problem("\n  ", problem);
  return text;
}

std::map<std::string, Verdict> read_table() {
  std::ifstream file(kSource / "tests/config/corpus_verdicts.tsv");
  std::map<std::string, Verdict> table;
  std::string line;
  std::getline(file, line);  // the header
  EXPECT_EQ(line, "file\tverdict\tkey\treason");
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string name, word, key;
    std::getline(cells, name, '\t');
    std::getline(cells, word, '\t');
    std::getline(cells, key, '\t');
    EXPECT_TRUE(table.emplace(name, Verdict{word, key}).second) << name << " stands twice";
    EXPECT_TRUE(word == "accept" || word == "warn" || word == "reject") << name << ": " << word;
    EXPECT_EQ(key == "-", word == "accept") << name;
  }
  return table;
}

TEST(Corpus, TheSeedFilesWarnOfNothing) {
  for (const auto& [name, text] : kSeedFiles) {
    for (const ReadOptions& options :
         {ReadOptions{}, ReadOptions{.strict = true, .world_size = 3}}) {
      const ReadResult read = read_config(text, options);
      EXPECT_FALSE(read.report.has_errors()) << name << all_of(read);
      EXPECT_TRUE(summary(read.report).empty()) << name << all_of(read);
    }
  }
}

TEST(Corpus, TheSeedFilesMeanWhatTheySay) {
  std::map<std::string, Config> configs;
  for (const auto& [name, text] : kSeedFiles) configs[name] = read_config(text).config;
  EXPECT_EQ(configs["stage1.json"].zero.stage, 1);
  EXPECT_EQ(configs["stage2.json"].zero.stage, 2);
  EXPECT_EQ(configs["stage2.json"].zero.overlap_comm, true);
  EXPECT_EQ(configs["stage2_offload.json"].offload.optimizer, Tier::host);
  EXPECT_EQ(configs["stage2_offload.json"].offload.parameters, Tier::device);
  for (const char* name : {"stage3_offload.json", "multimodal.json"}) {
    EXPECT_EQ(configs[name].zero.stage, 3) << name;
    EXPECT_EQ(configs[name].offload.optimizer, Tier::host) << name;
    EXPECT_EQ(configs[name].offload.parameters, Tier::host) << name;
  }
  EXPECT_TRUE(configs["basic_neuralnet.json"].precision.fp16.enabled);
  EXPECT_EQ(configs["huggingface_lora.json"].offload.optimizer, Tier::host);
}

TEST(Corpus, TheSeedFilesHereAreThoseOnDisk) {
  const fs::path folder = kSource / "../shared/corpus/seed";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not on this machine";
  for (const auto& [name, text] : kSeedFiles) {
    std::ifstream file(folder / name, std::ios::binary);
    std::ostringstream on_disk;
    on_disk << file.rdbuf();
    EXPECT_EQ(on_disk.str(), text) << name;
    EXPECT_FALSE(read_config_file((folder / name).string()).report.has_errors()) << name;
  }
}

TEST(Corpus, TheTableHoldsOneVerdictForEachOfThe125Files) { EXPECT_EQ(read_table().size(), 125U); }

TEST(Corpus, TheTableIsAboutExactlyTheFilesOnDisk) {
  const fs::path folder = kSource / "../shared/corpus/ds_config";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not on this machine";
  std::set<std::string> on_disk, in_table;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") on_disk.insert(entry.path().filename());
  }
  for (const auto& [name, verdict] : read_table()) in_table.insert(name);
  EXPECT_EQ(on_disk, in_table);
}

TEST(Corpus, TheReaderAgreesWithTheTableOnEveryFile) {
  const fs::path folder = kSource / "../shared/corpus/ds_config";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not on this machine";
  for (const auto& [name, expected] : read_table()) {
    const ReadResult read = read_config_file((folder / name).string());
    EXPECT_EQ(verdict_on(read), expected) << name << all_of(read);
    EXPECT_NO_THROW(explain(read, 8)) << name;
  }
}

}  // namespace
}  // namespace zeroshard::config
