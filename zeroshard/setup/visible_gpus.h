// Which GPUs of a machine a program may use, and how many ranks follow from that. Free of torch and
// of the driver's library: pure functions over what others have found.
//
//   const auto gpus = visible_gpus(all, env_exact(EnvVar::kVisibleGpus));
//   const int ranks = ranks_for_gpus("cuda", static_cast<int>(gpus.size()));
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

struct LocalGpu {
  std::string name;
  std::string uuid;  // "GPU-" and so on; empty where it is not known
  std::optional<std::int64_t> memory_bytes = {};
  bool is_split = false;  // into parts (MIG)

  bool operator==(const LocalGpu&) const = default;
};

// The GPUs that the kernel's driver lists, in the order of their places on the bus. `root` is where
// /proc is looked for, so that tests can bring their own.
std::vector<LocalGpu> gpus_of_driver(const std::filesystem::path& root = "/");

// What CUDA leaves of `all` where CUDA_VISIBLE_DEVICES has this value: indices, beginnings of
// UUIDs, or names of parts; the first that is not there ends the list, and one that comes twice
// makes it empty. Of GPUs that are split CUDA shows a process one part, and no other GPU.
std::vector<LocalGpu> visible_gpus(const std::vector<LocalGpu>& all,
                                   const std::optional<std::string>& variable);

// How many ranks to start where nobody says, on a machine with so many visible GPUs: one for each,
// unless `device` is the CPU or names a GPU.
int ranks_for_gpus(std::string_view device, int gpus);

// The GPU of a rank among `gpus` visible ones. Ranks share where they are more. Where each rank
// sees only its own, as srun --gpus-per-task=1 has it, that is the first.
int gpu_of_rank(int local_rank, int gpus);

}  // namespace zeroshard
