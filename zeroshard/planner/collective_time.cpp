#include "zeroshard/planner/collective_time.h"

#include <algorithm>

namespace zeroshard {
namespace {

// How many of the bytes that a rank sends one card carries. A ring crosses the way out of a host
// once, in as many parts as there are cards; direct messages of all its ranks go out one by one.
double share_of_nic(const Topology& topology, Route route) {
  const double nics = topology.nics();
  if (route == Route::ring) return 1 / nics;
  const double others = topology.ranks - topology.ranks_per_node;
  return others / (topology.ranks - 1) * topology.ranks_per_node / nics;
}

}  // namespace

int Topology::nodes() const { return (ranks + ranks_per_node - 1) / ranks_per_node; }

int Topology::nics() const { return nics_per_node > 0 ? nics_per_node : ranks_per_node; }

Route gather_route(bool accelerator) { return accelerator ? Route::ring : Route::direct; }

Route reduce_route(bool accelerator, bool deterministic) {
  return accelerator && !deterministic ? Route::ring : Route::direct;
}

double latency_seconds(const Topology& topology, const Rates& rates, Route route) {
  if (topology.ranks == 1) return 0;
  const int hops = route == Route::ring ? topology.ranks - 1 : 1;
  const int far = route == Route::ring ? topology.nodes() - 1 : std::min(topology.nodes() - 1, 1);
  const int near = std::max(hops - far - rates.measured_hops, 0);
  return rates.collective_seconds.value + near * rates.near_hop_seconds.value +
         far * rates.far_hop_seconds.value;
}

double bytes_per_second(const Topology& topology, const Rates& rates, Route route) {
  const double near = rates.near_bytes.value;
  if (topology.nodes() == 1) return near;
  return std::min(near, rates.far_bytes.value / share_of_nic(topology, route));
}

double collective_seconds(const Topology& topology, const Rates& rates, Route route,
                          std::int64_t bytes) {
  if (topology.ranks == 1) return 0;
  return latency_seconds(topology, rates, route) +
         static_cast<double>(bytes) / bytes_per_second(topology, rates, route);
}

double nic_bytes_per_second(const Topology& topology, Route route, double seen) {
  return seen * share_of_nic(topology, route);
}

}  // namespace zeroshard
