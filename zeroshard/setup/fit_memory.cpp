#include "zeroshard/setup/fit_memory.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/base/error.h"
#include "zeroshard/base/memory_room.h"
#include "zeroshard/planner/memory_fit.h"
#include "zeroshard/setup/this_host.h"

namespace zeroshard {
namespace {

// What a rank tells the others of its host.
struct RankReport {
  std::int64_t host = 0;
  std::int64_t room_bytes = 0;
  std::int64_t held_bytes = 0;
};

// All ranks come to the same verdict, and one says it.
template <typename Judge>
auto said_once(bool speaks, const Judge& judge) {
  try {
    return judge();
  } catch (const Error& error) {
    if (speaks) throw;
    throw PeerError(error.fault());
  }
}

// No rank goes on, and allocates, before all have looked how much there is.
std::vector<RankReport> gather_reports(const RankReport& mine, Communicator& comm) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(RankReport));
  std::vector<RankReport> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_into({{ConstPiece{&mine, kBytes, DType::uint8},
                         Piece{all.data(), kBytes * comm.world_size(), DType::uint8}}},
                       "host memory")
      .wait();
  return all;
}

HostRoom room_of(std::int64_t host, const std::vector<RankReport>& reports) {
  HostRoom room{.bytes = std::numeric_limits<std::int64_t>::max(),
                .ranks = 0,
                .held_bytes = std::numeric_limits<std::int64_t>::max()};
  for (const RankReport& report : reports) {
    if (report.host != host) continue;
    ++room.ranks;
    room.bytes = std::min(room.bytes, report.room_bytes);
    room.held_bytes = std::min(room.held_bytes, report.held_bytes);
  }
  return room;
}

bool is_first_of_its_host(std::size_t rank, const std::vector<RankReport>& reports) {
  const auto end = reports.begin() + static_cast<std::ptrdiff_t>(rank);
  return std::none_of(reports.begin(), end,
                      [&](const RankReport& other) { return other.host == reports[rank].host; });
}

// The first rank of a host speaks for it, since it knows which file there sets the limit. Returns
// what every host leaves each of its ranks for early updates.
std::int64_t check_hosts(const ModelLayout& model, const FootprintOptions& options,
                         std::int64_t held_on_host, Communicator& comm) {
  const MemoryRoom here = memory_room().value_or(
      MemoryRoom{.bytes = std::numeric_limits<std::int64_t>::max(), .set_by = ""});
  const auto reports = gather_reports({this_host(), here.bytes, held_on_host}, comm);
  std::int64_t spare = std::numeric_limits<std::int64_t>::max();
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (!is_first_of_its_host(rank, reports)) continue;
    HostRoom room = room_of(reports[rank].host, reports);
    room.set_by = here.set_by;
    said_once(comm.rank() == static_cast<int>(rank),
              [&] { return check_host_room(model, options, room); });
    spare = std::min(spare, undo_room(model, options, room));
  }
  return spare;
}

std::int64_t room_here() {
  const std::optional<MemoryRoom> room = memory_room();
  return room ? room->bytes : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

bool has_ample_room(std::int64_t bytes_per_rank, Communicator& comm) {
  const auto reports = gather_reports({this_host(), room_here(), 0}, comm);
  return std::ranges::all_of(reports, [&](const RankReport& report) {
    const HostRoom room = room_of(report.host, reports);
    return room.bytes / 2 / room.ranks >= bytes_per_rank;
  });
}

FittedMemory fit_memory(const ModelLayout& model, const FootprintOptions& options,
                        std::int64_t held_on_host, Communicator& comm) {
  const BudgetFit budgets =
      said_once(comm.rank() == 0, [&] { return fit_to_budgets(model, options); });
  FootprintOptions fitted = options;
  fitted.first_host_unit = budgets.first_host_unit;
  const Footprint plan = footprint(model, fitted);
  FittedMemory fit{.first_host_unit = budgets.first_host_unit,
                   .host_state_bytes = plan.states(Tier::host),
                   .undo_limit_bytes = budgets.undo_limit_bytes};
  if (plan.total(Tier::host) == 0) return fit;
  const std::int64_t spare = check_hosts(model, fitted, held_on_host, comm);
  fit.undo_limit_bytes = std::min(fit.undo_limit_bytes.value_or(spare), spare);
  return fit;
}

}  // namespace zeroshard
