// Random damage to real files, with fixed seeds: a fuzzer for builds without clang.

#include <random>

#include "tests/config/config_support.h"
#include "tests/config/reader_properties.h"
#include "tests/config/seed_files.h"

namespace zeroshard::config {
namespace {

// In the manner of people's files: every section, relaxed syntax, old spellings, mistakes.
const std::vector<std::string> kTexts{
    R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": 2, "gradient_clipping": 1.0, // as ever
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.8, 0.999], "eps": 1e-8,
                                            "weight_decay": 3e-7, "torch_adam": true}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-5,
                                                    "warmup_num_steps": 500, "total_num_steps": 100}},
  "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "hysteresis": 2},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "sub_group_size": 1e9,
    "offload_param": {"device": "nvme", "nvme_path": "/tmp/é"}, "stage3_max_live_parameters": 1e9},
})",
    R"(# Hjson
train_batch_size: 16
steps_per_print: 2000,
'wall_clock_breakdown': false
bfloat16: {enabled: true
  check_grad_overflow: true}
optimizer: {
  type: OneBitAdam
  params: {lr: 0.1, max_grad_norm: 1}
}
tensorboard: {"enabled": true, "output_path": logs/日本, job_name: run # 1
}
)",
    R"({"zero_optimization": {"cpu_offload": true, "offload_optimizer": {"device": "cpu"},
  "stage": 1, "prefetch_bucket_size": 1, "stage3_prefetch_bucket_size": 2, "zenflow": {"a": 1}},
  "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3}},
  "zeroshard": {"device_budget": "10GiB", "comm_timeout": "5min"}, "_comment": ["x", {"y": null}],
  "moe": {}, "train_batchsize": 3, "checkpoint": {"tag_validation": "Fail"}, "vocabulary_size": 7})",
};

const std::vector<std::string> kPieces{"{",
                                       "}",
                                       "[",
                                       "]",
                                       ":",
                                       ",",
                                       "\"",
                                       "'",
                                       "//",
                                       "/*",
                                       "*/",
                                       "#",
                                       "\n",
                                       "\r\n",
                                       "\\",
                                       "\\u0000",
                                       "null",
                                       "true",
                                       "false",
                                       "\"auto\"",
                                       "1e999",
                                       "-1",
                                       "0",
                                       "1.5",
                                       "99999999999999999999",
                                       "é",
                                       "\xFF",
                                       std::string("\0", 1),
                                       "\"type\": \"SGD\",",
                                       "\"params\": {},",
                                       "\"stage\": 3,",
                                       "\"fp16\": {\"enabled\": true},",
                                       "\"bf16\": {\"enabled\": true},",
                                       "\"_\": 1,",
                                       "nvme",
                                       "Lion"};

// What a file survives, in most places.
const std::vector<std::string> kHarmless{" ", "\n", "\r\n", "// é\n", "/* { */", "# ]\n"};

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    const int times = 1 + static_cast<int>(below(2));
    for (int i = 0; i < times; ++i) mutate_once(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void mutate_once(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t size = std::min(below(12), text.size() - at);
    switch (below(8)) {
      case 0: text.erase(at, size); break;
      case 1: text.insert(at, kPieces[below(kPieces.size())]); break;
      case 2: text.replace(at, size, kPieces[below(kPieces.size())]); break;
      case 3: text.insert(below(text.size() + 1), text.substr(at, size * 4)); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      default: text.insert(at, kHarmless[below(kHarmless.size())]); break;
    }
  }

  std::mt19937 random_;
};

TEST(Mutations, NeverBreakAPropertyOfTheReader) {
  constexpr int kRounds = 300;
  std::vector<std::string> texts = kTexts;
  for (const auto& [name, text] : kSeedFiles) texts.emplace_back(text);
  int refused = 0, fine = 0;
  for (std::size_t which = 0; which < texts.size(); ++which) {
    Mutator mutator(static_cast<std::uint32_t>(which));
    for (int round = 0; round < kRounds; ++round) {
      const std::string text = mutator.mutate(texts[which]);
      std::string broken;
      ASSERT_NO_THROW(broken = broken_property(text)) << text;
      ASSERT_EQ(broken, "") << text;
      ++(read_config(text).report.has_errors() ? refused : fine);
    }
  }
  EXPECT_GT(refused, 600) << "the damage is too light";
  EXPECT_GT(fine, 350) << "the damage is too heavy";
}

TEST(Mutations, EveryBeginningOfAFileIsReadOrRefused) {
  for (const std::string& text : kTexts) {
    for (std::size_t size = 0; size <= text.size(); size += 3) {
      const std::string beginning = text.substr(0, size);
      ASSERT_EQ(broken_property(beginning), "") << beginning;
    }
  }
}

TEST(Mutations, TheTextsThemselvesHoldWhatTheyShould) {
  EXPECT_FALSE(read_config(kTexts[0]).report.has_errors());
  EXPECT_TRUE(read_config(kTexts[1]).report.has_errors()) << "OneBitAdam";
  EXPECT_EQ(read_config(kTexts[1]).config.batch.train, 16);
  EXPECT_TRUE(read_config(kTexts[1]).config.precision.bf16.check_grad_overflow);
  EXPECT_GE(read_config(kTexts[2]).report.problems().size(), 6U);
}

}  // namespace
}  // namespace zeroshard::config
