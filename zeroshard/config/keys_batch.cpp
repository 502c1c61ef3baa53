// Batch sizes, gradients on their way, and the top level's switches.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {

void add_batch_keys(KeyTable& table) {
  table.add(option("train_batch_size", ZS_FIELD(batch.train),
                   "samples per step over all ranks = micro batch x accumulation x ranks", kCount));
  table.add(option("train_micro_batch_size_per_gpu", ZS_FIELD(batch.micro_per_rank),
                   "samples per rank and micro-step", kCount));
  table.add(option("gradient_accumulation_steps", ZS_FIELD(batch.accumulation),
                   "micro-steps per step", kCount));
  table.add(option("dataloader_drop_last", ZS_FIELD(batch.drop_last),
                   "leave out the incomplete last batch of an epoch"));
  table.add(absent<bool>("managed_gradient_accumulation",
                         "the engine counts micro-steps and acts at the boundary",
                         {.effect = Effect::changes_results,
                          .default_value = "true",
                          .instead = "the engine always counts micro-steps",
                          .harmless = {"true"}}));

  table.add(option("gradient_clipping", ZS_FIELD(precision.gradient_clipping),
                   "global L2 norm to clip gradients to; 0: no clipping", kNotNegative)
                .infinity_is("0"));
  table.add(option("communication_data_type", ZS_FIELD(precision.communication_data_type),
                   "dtype gradients travel in; null: the model's"));
  table.add(option("prescale_gradients", ZS_FIELD(precision.prescale_gradients),
                   "divide by the ranks before the reduction instead of after"));
  table.add(option("gradient_predivide_factor", ZS_FIELD(precision.gradient_predivide_factor),
                   "divide by this before the reduction, multiply by it over the ranks after",
                   kPositive));
  table.add(absent<std::string>("gradient_allreduce_op", "mean or sum over the ranks",
                                {.effect = Effect::changes_results,
                                 .default_value = "\"mean\"",
                                 .instead = "gradients are averaged; scale the loss for a sum",
                                 .harmless = {"\"mean\"", "\"MEAN\"", "\"Mean\""}}));
  table.add(absent<bool>("sparse_gradients", "reduce embedding gradients by rows",
                         {.effect = Effect::tuning,
                          .default_value = "false",
                          .instead = "all gradients are reduced densely, with equal results",
                          .harmless = {"false"}}));
}

}  // namespace zeroshard::config
