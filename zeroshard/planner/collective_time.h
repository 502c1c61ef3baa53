// How long a collective takes: until it has gone around, and until its bytes have. The formulas are
// in docs/scaling.md, in these words.
//
//   const Topology topology{.ranks = 64, .ranks_per_node = 8};
//   collective_seconds(topology, rates, Route::ring, bytes_sent_once(layout, DType::bf16));
#pragma once

#include <cstdint>

#include "zeroshard/planner/rates.h"

namespace zeroshard {

// Which ranks share a host, and what leads out of it.
struct Topology {
  int ranks = 1;
  int ranks_per_node = 1;
  int nics_per_node = 0;  // network cards of a host, shared by its ranks; 0: one for each rank

  int nodes() const;
  int nics() const;
};

// How a collective's bytes get to all ranks.
enum class Route {
  ring,    // NCCL's: each rank sends to the next, N-1 times; a host's cards carry parts of the ring
  direct,  // ours: each rank sends to every other by itself, all at once
};

// Which one gathers or reductions take: sums in rank order need every addend at its owner.
Route gather_route(bool accelerator);
Route reduce_route(bool accelerator, bool deterministic);

// alpha: what a collective takes however few its bytes are.
double latency_seconds(const Topology& topology, const Rates& rates, Route route);

// Of what each rank sends in all (bytes_sent_once): how much of it passes in a second.
double bytes_per_second(const Topology& topology, const Rates& rates, Route route);

double collective_seconds(const Topology& topology, const Rates& rates, Route route,
                          std::int64_t bytes);

// What one card carries where so many bytes per second were seen to pass between hosts.
double nic_bytes_per_second(const Topology& topology, Route route, double seen);

}  // namespace zeroshard
