// Stages agree on ranks that are processes: zeroshard run --ranks N engine_mpi cpu|cuda
// On `cuda` all ranks share one accelerator, through pinned staging; exit code 77 without one.
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "tests/engine/random_plan.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/device/accelerators.h"

namespace zeroshard::test {
namespace {

constexpr Device kFirst{DeviceKind::cuda, 0};

// Every rank compares what it has seen.
void compare(const RunPlan& plan, int stage, int other, Communicator& comm) {
  RunPlan a = plan, b = plan;
  a.options.zero.stage = stage;
  b.options.zero.stage = other;
  const std::string problem = difference(train_rank(a, comm), train_rank(b, comm));
  if (problem.empty()) return;
  throw std::runtime_error(
      fmt::format("stages {} and {}: {}\n  {}", stage, other, problem, describe(a)));
}

int run(const std::string& device) {
  const bool accelerated = device == "cuda";
  if (accelerated && load_accelerators() == 0) {
    fmt::print("needs an accelerator: {}\n", missing_reason(DeviceKind::cuda));
    return 77;
  }
  constexpr int kRuns = 10;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    // A communicator for each run: every rank makes the same siblings.
    const auto comm =
        join_ranks({.timeout = std::chrono::seconds(60)}, accelerated ? kFirst : kCpu);
    std::mt19937_64 random(seed);
    RunPlan plan = with_random_placement(random_numbers(random), random);
    plan.ranks = comm->world_size();
    plan.options.device = accelerated ? kFirst : kCpu;
    const bool in_pairs = plan.options.accumulation_steps > 1;
    compare(plan, in_pairs ? 2 : 0, 3, *comm);
    if (comm->rank() == 0) fmt::print("seed {}: stages agree\n", seed);
  }
  return 0;
}

}  // namespace
}  // namespace zeroshard::test

int main(int argc, char** argv) {
  return zeroshard::rank_main([&] { return zeroshard::test::run(argc > 1 ? argv[1] : "cpu"); });
}
