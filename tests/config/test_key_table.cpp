// The table itself: no row twice, none half filled, and values that survive being shown and read.

#include <map>
#include <set>

#include "tests/config/config_support.h"
#include "zeroshard/config/key_table.h"
#include "zeroshard/config/parse.h"

namespace zeroshard::config {
namespace {

// Every spelling of a key with every kind it is for.
std::vector<std::string> spellings_of(const Key& key) {
  std::set<std::string> names{key.name()};
  names.insert(key.aliases.begin(), key.aliases.end());
  names.insert(key.old_spellings.begin(), key.old_spellings.end());
  std::vector<std::string> all;
  const auto kinds = key.only_for.empty() ? std::vector<std::string>{""} : key.only_for;
  for (const std::string& name : names) {
    for (const std::string& kind : kinds) {
      all.push_back(join_path(parent_of(key.path), name) + " " + kind);
    }
  }
  return all;
}

TEST(KeyTable, NoSpellingIsThereTwice) {
  std::map<std::string, int> times;
  for (const Key& key : key_table().keys()) {
    for (const std::string& spelled : spellings_of(key)) ++times[spelled];
  }
  for (const Section& section : key_table().sections()) ++times[section.path + " "];
  for (const auto& [path, count] : times) EXPECT_EQ(count, 1) << path;
}

TEST(KeyTable, EveryRowIsFilled) {
  for (const Key& key : key_table().keys()) {
    EXPECT_FALSE(key.type.empty()) << key.path;
    EXPECT_FALSE(key.meaning.empty()) << key.path;
    EXPECT_TRUE(static_cast<bool>(key.store)) << key.path;
    EXPECT_FALSE(key_table().default_of(key).empty()) << key.path;
    EXPECT_EQ(key.meaning.find('\n'), std::string::npos) << key.path;
    const bool reported = key.effect == Effect::no_effect || key.effect == Effect::changes_results;
    EXPECT_TRUE(!reported || static_cast<bool>(key.harmless)) << key.path;
  }
  for (const Section& section : key_table().sections()) {
    EXPECT_FALSE(section.meaning.empty()) << section.path;
  }
}

TEST(KeyTable, EveryKeyStandsInASectionOfTheTable) {
  for (const Key& key : key_table().keys()) {
    const std::string_view home = parent_of(key.path);
    EXPECT_TRUE(home.empty() || key_table().find_section(home) != nullptr) << key.path;
  }
  for (const Section& section : key_table().sections()) {
    const std::string_view home = parent_of(section.path);
    EXPECT_TRUE(home.empty() || key_table().find_section(home) != nullptr) << section.path;
  }
}

TEST(KeyTable, KindsNamedByKeysExist) {
  for (const Key& key : key_table().keys()) {
    for (const std::string& kind : key.only_for) {
      const Kind* found = key_table().find_kind(parent_of(parent_of(key.path)), kind);
      ASSERT_NE(found, nullptr) << key.path << ' ' << kind;
      EXPECT_TRUE(static_cast<bool>(found->install)) << kind;
      EXPECT_EQ(found->name, kind);
    }
  }
}

TEST(KeyTable, FindsKindsInAnyCase) {
  EXPECT_EQ(key_table().find_kind("optimizer", "aDaMw")->name, "AdamW");
  EXPECT_EQ(key_table().find_kind("optimizer", "WarmupLR"), nullptr);
  EXPECT_EQ(key_table().find_kind("optimizer", "Ada"), nullptr);
}

TEST(KeyTable, PathsComeApartAndTogether) {
  EXPECT_EQ(parent_of("a.b.c"), "a.b");
  EXPECT_EQ(leaf_of("a.b.c"), "c");
  EXPECT_EQ(parent_of("a"), "");
  EXPECT_EQ(leaf_of("a"), "a");
  EXPECT_EQ(join_path("", "a"), "a");
  EXPECT_EQ(join_path("a.b", "c"), "a.b.c");
}

// Values to try for each type of the table, as a file would write them.
const std::map<std::string, Lines> kSamples{
    {"boolean", {"true", "false"}},
    {"integer", {"1", "3", "2.0", "1e0"}},
    {"number", {"0.5", "1", "1e-7", "0.1", "0.30000000000000004"}},
    {"string", {"\"x\"", "\"a b\"", "\"C:\\\\runs\"", "\"say \\\"hi\\\"\"", "\"\\n\""}},
    {"two numbers", {"[0.9, 0.95]", "[0, 0.1]"}},
    {"dtype", {"\"fp16\"", "\"torch.bfloat16\"", "\"float\""}},
    {"none, cpu or nvme", {"\"none\"", "\"cpu\"", "\"nvme\""}},
    {"log or linear", {"\"log\"", "\"linear\""}},
    {"warn, ignore or fail", {"\"warn\"", "\"FAIL\""}},
    {"duration", {"\"30min\"", "\"90s\"", "\"1500ms\"", "45"}},
    {"size", {"\"10GiB\"", "\"1.5GB\"", "4096", "\"12345678901\""}},
};

std::optional<std::string> stored_and_shown(const Key& key, Config& config,
                                            const std::string& value) {
  Report report;
  const auto root = parse("{\"v\": " + value + "}", report);
  if (!root || !report.problems().empty()) {
    ADD_FAILURE() << key.path << ": " << value << " is no JSON";
    return std::nullopt;
  }
  if (key.store(root->members[0].value, Coercion::plain, config).rejected) return std::nullopt;
  return key.show(config);
}

void expect_round_trip(const Key& key, const Config& prototype, const std::string& value) {
  Config first = prototype, second = prototype;
  const auto once = stored_and_shown(key, first, value);
  if (!once) return;  // out of this key's range
  const auto twice = stored_and_shown(key, second, *once);
  ASSERT_TRUE(twice) << key.path << " does not take back " << *once << ", shown for " << value;
  EXPECT_EQ(*once, *twice) << key.path << " = " << value;
}

Config prototype_for(const Key& key) {
  if (key.only_for.empty()) return {};
  const std::string section(parent_of(parent_of(key.path)));
  Config config;
  key_table().find_kind(section, key.only_for.front())->install(config);
  return config;
}

TEST(KeyTable, WhatIsShownIsReadAsTheSame) {
  int tried = 0;
  for (const Key& key : key_table().keys()) {
    if (!key.show) continue;
    const Config prototype = prototype_for(key);
    const std::string standard = key.show(prototype);
    if (standard != "null") expect_round_trip(key, prototype, standard);
    const auto samples = kSamples.find(key.type);
    ASSERT_NE(samples, kSamples.end()) << key.path << " has type " << key.type;
    for (const std::string& value : samples->second) expect_round_trip(key, prototype, value);
    ++tried;
  }
  EXPECT_GT(tried, 60);
}

// Storing a sample must change the option that show() reads: a key bound to a neighbour's option
// would otherwise pass.
TEST(KeyTable, EveryOptionIsHeldByOneKeyOnly) {
  for (const Key& key : key_table().keys()) {
    if (!key.show || !key.only_for.empty()) continue;
    for (const std::string& value : kSamples.at(key.type)) {
      Config config;
      const std::string before = key.show(config);
      const auto after = stored_and_shown(key, config, value);
      if (!after || *after == before) continue;
      for (const Key& other : key_table().keys()) {
        if (!other.show || !other.only_for.empty() || other.path == key.path) continue;
        EXPECT_EQ(other.show(config), other.show(Config{})) << key.path << " moves " << other.path;
      }
    }
  }
}

TEST(KeyTable, EveryOptionCanBeMovedFromItsDefault) {
  for (const Key& key : key_table().keys()) {
    if (!key.show) continue;
    const Config prototype = prototype_for(key);
    bool moved = false;
    for (const std::string& value : kSamples.at(key.type)) {
      Config config = prototype;
      const auto shown = stored_and_shown(key, config, value);
      moved |= shown && *shown != key.show(prototype);
    }
    const bool own_words = key.path == "log_level";
    EXPECT_TRUE(moved || own_words) << key.path;
  }
}

}  // namespace
}  // namespace zeroshard::config
