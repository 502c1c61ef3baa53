// Batch sizes and data order of a training run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeroshard {

// The batch triad: train = micro_per_rank * accumulation * ranks. Unset parts are derived.
struct BatchOptions {
  std::optional<std::int64_t> train;           // train_batch_size
  std::optional<std::int64_t> micro_per_rank;  // train_micro_batch_size_per_gpu
  std::optional<std::int64_t> accumulation;    // gradient_accumulation_steps
  bool drop_last = false;                      // dataloader_drop_last
};

// What the bytes of a data file are: text, each byte a token; or little-endian token numbers.
enum class TokenFormat { text, u16, u32 };

// Token files, and how samples are cut from them.
struct DataOptions {
  std::vector<std::string> files;
  TokenFormat format = TokenFormat::text;
  std::int64_t vocabulary = 256;       // tokens are 0 to vocabulary - 1
  std::int64_t sequence_length = 128;  // tokens the model sees at once
};

// How often a run saves: every so many steps, or so much time.
struct SaveEvery {
  std::int64_t steps = 0;  // 0: by time
  std::chrono::milliseconds time = std::chrono::minutes(30);

  bool operator==(const SaveEvery&) const = default;
};

// What a run ends with whose steps are all done and whose last checkpoint could not be written:
// starting it again would help nobody.
inline constexpr int kNotSavedExitCode = 3;

// What a run does when a checkpoint cannot be written.
enum class OnSaveError { go_on, stop };

// What `zeroshard train` is asked for; the configuration file says the rest.
struct TrainOptions {
  std::string config;  // a ds_config.json; empty: all defaults
  std::string model;   // "gpt:layers=4,..."; empty: that of `init`, else gpt with its defaults
  std::vector<std::string> data;
  TokenFormat format = TokenFormat::text;
  std::vector<std::string> eval_data;
  std::int64_t eval_every = 0;  // steps; 0: at the end only
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> epochs;
  std::optional<double> lr;                // in place of the configuration's
  std::optional<std::int64_t> batch_size;  // of all ranks, in place of the configuration's
  std::uint64_t seed = 42;
  std::string device;  // "cpu", "cuda", "cuda:1"; empty: cuda where there is one
  std::optional<std::int64_t> device_memory = {};  // that a rank may take; unset: what is there
  std::optional<std::int64_t> host_memory = {};    // ... of a host, for all its ranks
  std::string log;                                 // one JSON object per step
  std::string trace;                               // for Perfetto
  std::string report;                              // a page about the run
  std::string out;                                 // a folder for the trained weights
  std::string init;                                // a folder with weights to start from
  std::string save;                                // a folder for checkpoints
  SaveEvery save_every = {};
  std::int64_t keep = 3;  // the last so many checkpoints; 0: all
  OnSaveError on_save_error = OnSaveError::go_on;
  std::string resume;      // a checkpoint, a folder of them, or "auto": that of `save`, if any
  bool strict = false;     // unknown keys of the configuration are errors
  bool no_sample = false;  // nothing is shown at the end of what was learnt
};

struct GenerateOptions {
  std::string folder;  // config.json and model.safetensors
  std::string prompt = "\n";
  std::int64_t count = 200;  // new tokens
  double temperature = 0.8;
  std::int64_t top_k = 0;  // 0: all tokens
  std::uint64_t seed = 42;
};

}  // namespace zeroshard
