#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/nearest.h"

namespace zeroshard {
namespace {

constexpr std::array<std::string_view, 16> kKeys{"stage",
                                                 "stage3_param_persistence_threshold",
                                                 "cpu_offload",
                                                 "cpu_offload_param",
                                                 "gradient_accumulation_steps",
                                                 "train_batch_size",
                                                 "gradient_clipping",
                                                 "wandb",
                                                 "amp",
                                                 "aio",
                                                 "lr",
                                                 "bf16",
                                                 "fp16",
                                                 "zero_optimization",
                                                 "optimizer",
                                                 "train_micro_batch_size_per_gpu"};

TEST(Nearest, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("abc", "ABC"), 0);
  EXPECT_EQ(edit_distance("abc", "abd"), 1);
  EXPECT_EQ(edit_distance("abc", "ab"), 1);
  EXPECT_EQ(edit_distance("abc", "xabc"), 1);
  EXPECT_EQ(edit_distance("satge", "stage"), 1);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment; full Damerau says 2
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Nearest, EditDistanceIsSymmetric) {
  for (const auto left : kKeys) {
    for (const auto right : kKeys) {
      EXPECT_EQ(edit_distance(left, right), edit_distance(right, left));
    }
  }
}

TEST(Nearest, FindsTheWordsInAnotherOrder) {
  const std::vector<std::string> names{"overlap_comm", "reduce_scatter", "round_robin_gradients"};
  EXPECT_EQ(nearest("comm_overlap", names), "overlap_comm");
  EXPECT_EQ(nearest("comm-overlap", names), "overlap_comm");
  EXPECT_EQ(nearest("coms_overlap", names), "overlap_comm") << "and a letter wrong";
  EXPECT_EQ(nearest("gradients_round_robin", names), "round_robin_gradients");
  EXPECT_EQ(nearest("comm_reduce", names), std::nullopt);
}

TEST(Nearest, HintsAtTheNameThatHasAllTheWords) {
  const std::vector<std::string> names{"train_batch_size", "train_micro_batch_size_per_gpu",
                                       "tag_validation", "stage"};
  EXPECT_EQ(nearest_by_words("micro_batch_per_gpu", names), "train_micro_batch_size_per_gpu");
  EXPECT_EQ(nearest_by_words("checkpoint_tag_validation", names), std::nullopt);
  EXPECT_EQ(nearest_by_words("batch_size", names), "train_batch_size") << "the least that is more";
  EXPECT_EQ(nearest_by_words("stage", names), std::nullopt) << "one word says too little";
  EXPECT_EQ(nearest_by_words("a_b", std::vector<std::string>{"a_b_c", "a_b_d"}), std::nullopt);
  EXPECT_EQ(nearest_by_words("", names), std::nullopt);
}

TEST(Nearest, FindsTypingMistakes) {
  EXPECT_EQ(nearest("stage3_param_persitance_threshold", kKeys),
            "stage3_param_persistence_threshold");
  EXPECT_EQ(nearest("cpu_offload_params", kKeys), "cpu_offload_param");
  EXPECT_EQ(nearest("gradient_acumulation_steps", kKeys), "gradient_accumulation_steps");
  EXPECT_EQ(nearest("train_batchsize", kKeys), "train_batch_size");
  EXPECT_EQ(nearest("satge", kKeys), "stage");
  EXPECT_EQ(nearest("zero_optimisation", kKeys), "zero_optimization");
  EXPECT_EQ(nearest("optimiser", kKeys), "optimizer");
  EXPECT_EQ(nearest("train_micro_batch_size_per_gpus", kKeys), "train_micro_batch_size_per_gpu");
  EXPECT_EQ(nearest("BF16", kKeys), "bf16");
  EXPECT_EQ(nearest("LR", kKeys), "lr");
  EXPECT_EQ(nearest("aoi", kKeys), "aio");
}

TEST(Nearest, DoesNotGuess) {
  for (const auto* word :
       {"max_grad_norm", "warmup", "log", "moe", "min_lr", "msamp", "backend", "tp", "wr", "", "x",
        "micro_batch", "communication_data_type", "gradient_accumulation_dtype"}) {
    EXPECT_EQ(nearest(word, kKeys), std::nullopt) << word;
  }
}

TEST(Nearest, FirstOfEquallyCloseOnes) {
  EXPECT_EQ(nearest("stagx", {"staga", "stagb"}), "staga");
  EXPECT_EQ(nearest("stagx", {"stagb", "staga"}), "stagb");
}

TEST(Nearest, CloserBeatsEarlier) {
  EXPECT_EQ(nearest("reduce_scater", {"reduce_scaler_", "reduce_scatter"}), "reduce_scatter");
}

TEST(Nearest, AtMostTwoMistakesInLongWords) {
  const std::string word(60, 'a');
  EXPECT_EQ(nearest("xx" + word.substr(2), {word}), word);
  EXPECT_EQ(nearest("xxx" + word.substr(3), {word}), std::nullopt);
}

TEST(Nearest, TakesStrings) {
  const std::vector<std::string> names{"adam", "adamw", "lion"};
  EXPECT_EQ(nearest("lino", names), "lion");
  EXPECT_EQ(nearest("adan", names), "adam");
}

}  // namespace
}  // namespace zeroshard
