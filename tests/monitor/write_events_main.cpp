// Writes an event file for check_tensorboard.py: write_events <folder> <steps>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "zeroshard/monitor/monitor.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    zeroshard::MonitorOptions options;
    options.tensorboard = {.enabled = true, .output_path = argv[1], .job_name = "job"};
    zeroshard::Monitor monitor(options);
    for (long step = 0; step < std::atol(argv[2]); ++step) {
      monitor.write(step * 64, {{zeroshard::tags::kTrainLoss, 1.0 / static_cast<double>(step + 1)},
                                {zeroshard::tags::kLearningRate, 1e-4},
                                {zeroshard::tags::kLossScale, 65536.0}});
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
