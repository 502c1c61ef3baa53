#include "zeroshard/setup/share_cpus.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "zeroshard/setup/choices.h"

namespace zeroshard {
namespace {

using RankList = std::vector<std::size_t>;

// Those CPUs of `cpus` that belong together are neighbours in what comes back.
std::vector<int> along_cores(const CpuSet& cpus, const std::map<int, std::size_t>& core_of) {
  std::vector<int> ordered(cpus.begin(), cpus.end());
  // Cores are numbered by their first CPU, which is also the name of a CPU that nobody lists.
  const auto core = [&](int cpu) {
    const auto known = core_of.find(cpu);
    return known == core_of.end() ? static_cast<std::size_t>(cpu) : known->second;
  };
  std::ranges::stable_sort(ordered, {}, core);
  return ordered;
}

std::map<int, std::size_t> cores_by_cpu(const std::vector<CpuSet>& cores) {
  std::map<int, std::size_t> core_of;
  for (const CpuSet& core : cores) {
    for (const int cpu : core) core_of[cpu] = static_cast<std::size_t>(core.front());
  }
  return core_of;
}

// CPUs that the same ranks may use are one pool.
std::map<RankList, CpuSet> pools_of(const std::vector<RankCpus>& ranks, const RankList& of_host) {
  std::map<int, RankList> users;
  for (const std::size_t rank : of_host) {
    for (const int cpu : ranks[rank].may_use) users[cpu].push_back(rank);
  }
  std::map<RankList, CpuSet> pools;
  for (auto& [cpu, list] : users) pools[std::move(list)].push_back(cpu);
  return pools;
}

void share_pool(const RankList& users, const std::vector<int>& cpus,
                std::vector<CpuShare>& shares) {
  const std::size_t each = cpus.size() / users.size();
  for (std::size_t i = 0; i < users.size(); ++i) {
    const auto begin = cpus.begin() + static_cast<std::ptrdiff_t>(i * each);
    CpuSet& to = shares[users[i]].cpus;
    to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(each));
  }
}

void settle_threads(const RankCpus& rank, int ranks_on_host, CpuShare& share) {
  int cpus = static_cast<int>(share.cpus.size());
  if (rank.quota) cpus = std::min(cpus, *rank.quota / ranks_on_host);
  const RankThreads chosen = rank_threads(cpus, 1, rank.given_threads);
  share.threads = chosen.threads;
  share.leaves_idle_core = chosen.leave_idle_cores;
  std::ranges::sort(share.cpus);
  if (share.cpus.empty()) share.cpus = rank.may_use;
}

}  // namespace

std::vector<CpuShare> share_cpus(const std::vector<RankCpus>& ranks,
                                 const std::vector<CpuSet>& cores) {
  std::map<std::int32_t, RankList> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) hosts[ranks[rank].host].push_back(rank);
  const auto core_of = cores_by_cpu(cores);
  std::vector<CpuShare> shares(ranks.size());
  for (const auto& [host, of_host] : hosts) {
    for (const auto& [users, cpus] : pools_of(ranks, of_host)) {
      share_pool(users, along_cores(cpus, core_of), shares);
    }
    for (const std::size_t rank : of_host) {
      settle_threads(ranks[rank], static_cast<int>(of_host.size()), shares[rank]);
    }
  }
  return shares;
}

}  // namespace zeroshard
