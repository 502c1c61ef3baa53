// What a model says at the end of its training, for two seconds at most.
#pragma once

#include <chrono>
#include <cstdint>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/monitor/interrupts.h"
#include "zeroshard/trainer/task.h"

namespace zeroshard {

inline constexpr std::chrono::seconds kSampleTime{2};

// Rank 0 prints it. Returns the signal that ended it early, or 0. Collective.
int show_sample(TrainingTask& task, std::uint64_t seed, Communicator& comm,
                const Interrupts& interrupts);

}  // namespace zeroshard
