#include "zeroshard/engine/step_agreement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace zeroshard {
namespace {

constexpr std::array kTrainingPhases{PhaseKind::train_forward, PhaseKind::backward};
constexpr std::size_t kHeadBytes = sizeof(double) + 1;

// The sum, one byte for the order, one byte for each parameter.
std::vector<std::uint8_t> packed(const StepFindings& findings) {
  std::vector<std::uint8_t> bytes(kHeadBytes);
  std::memcpy(bytes.data(), &findings.sum_of_squares, sizeof(double));
  bytes[sizeof(double)] = findings.order_changed ? 1 : 0;
  for (const bool present : findings.present) bytes.push_back(present ? 1 : 0);
  return bytes;
}

// Sums are added in rank order, so that all ranks have the same norm to the bit.
StepAgreement joined(const std::vector<std::uint8_t>& all, std::size_t bytes_per_rank) {
  StepAgreement agreed{.order_changed = all[sizeof(double)] != 0,
                       .present = std::vector<bool>(bytes_per_rank - kHeadBytes)};
  double sum = 0.0;
  for (std::size_t at = 0; at < all.size(); at += bytes_per_rank) {
    double part = 0.0;
    std::memcpy(&part, all.data() + at, sizeof(part));
    sum += part;
    for (std::size_t i = 0; i < agreed.present.size(); ++i) {
      if (all[at + kHeadBytes + i] != 0) agreed.present[i] = true;
    }
  }
  agreed.norm = std::sqrt(sum);
  return agreed;
}

}  // namespace

StepAgreement agree(const StepFindings& own, Communicator& comm) {
  const std::vector<std::uint8_t> mine = packed(own);
  const auto bytes = static_cast<std::int64_t>(mine.size());
  const int ranks = comm.world_size();
  std::vector<std::uint8_t> all(mine.size() * static_cast<std::size_t>(ranks));
  comm.all_gather_into({{ConstPiece{mine.data(), bytes, DType::uint8},
                         Piece{all.data(), bytes * ranks, DType::uint8}}},
                       "norm")
      .wait();
  return joined(all, mine.size());
}

bool order_changed(const GatherSchedule& schedule) {
  return std::ranges::any_of(kTrainingPhases, [&](PhaseKind phase) {
    const Phase& seen = schedule.observed(phase);
    return !seen.empty() && schedule.merged(phase, seen) != schedule.planned(phase);
  });
}

// Evaluation is expected to go as training does.
void adopt_order(GatherSchedule& schedule, Communicator& comm) {
  for (const PhaseKind phase : kTrainingPhases) {
    const Phase& seen = schedule.observed(phase);
    auto count = static_cast<std::int32_t>(seen.size());
    comm.broadcast({&count, 1, DType::int32}, 0, "order").wait();
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < std::min(order.size(), seen.size()); ++i) {
      order[i] = static_cast<std::int32_t>(seen[i]);
    }
    comm.broadcast({order.data(), count, DType::int32}, 0, "order").wait();
    schedule.plan(phase, schedule.merged(phase, Phase(order.begin(), order.end())));
  }
  schedule.plan(PhaseKind::eval, schedule.planned(PhaseKind::train_forward));
}

}  // namespace zeroshard
