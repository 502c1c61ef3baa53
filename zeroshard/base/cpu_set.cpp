#include "zeroshard/base/cpu_set.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <thread>

#include <sched.h>

#include "zeroshard/base/leading_number.h"

namespace zeroshard {
namespace {

constexpr int kMostCpus = 1 << 20;  // far beyond any kernel

// cpu_set_t holds 1024 CPUs; kernels may have more.
std::vector<cpu_set_t> mask_for(int cpus) {
  return std::vector<cpu_set_t>(static_cast<std::size_t>(cpus / CPU_SETSIZE) + 1);
}

std::size_t bytes_of(const std::vector<cpu_set_t>& mask) { return mask.size() * sizeof(cpu_set_t); }

CpuSet all_online() {
  CpuSet cpus(std::max(1U, std::thread::hardware_concurrency()));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

std::optional<int> take_cpu(std::string_view& text) {
  const auto number = take_number(text);
  if (!number || *number < 0 || *number >= kMostCpus) return std::nullopt;
  return static_cast<int>(*number);
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\n") == text.npos; }

// "3" or "0-3", with the comma between it and the next.
bool take_range(std::string_view& text, CpuSet& cpus) {
  const auto first = take_cpu(text);
  auto last = first;
  if (first && text.starts_with('-')) {
    text.remove_prefix(1);
    last = take_cpu(text);
  }
  if (!first || !last || *last < *first) return false;
  for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  if (!text.starts_with(',')) return is_blank(text);
  text.remove_prefix(1);
  return true;
}

}  // namespace

CpuSet cpus_in_list(std::string_view text) {
  CpuSet cpus;
  while (!is_blank(text)) {
    if (!take_range(text, cpus)) return {};
  }
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string list_of_cpus(const CpuSet& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last;
  }
  return text;
}

CpuSet common_cpus(const CpuSet& one, const CpuSet& other) {
  CpuSet both;
  std::ranges::set_intersection(one, other, std::back_inserter(both));
  return both;
}

CpuSet affinity() {
  // The kernel refuses a mask smaller than its own, and does not say how large that is.
  for (int size = CPU_SETSIZE; size <= kMostCpus; size *= 2) {
    auto mask = mask_for(size);
    if (sched_getaffinity(0, bytes_of(mask), mask.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    CpuSet cpus;
    for (int cpu = 0; cpu < size; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes_of(mask), mask.data())) cpus.push_back(cpu);
    }
    if (!cpus.empty()) return cpus;
    break;
  }
  return all_online();
}

bool set_affinity(const CpuSet& cpus) {
  if (cpus.empty()) return false;
  auto mask = mask_for(cpus.back());
  for (const int cpu : cpus) CPU_SET_S(cpu, bytes_of(mask), mask.data());
  return sched_setaffinity(0, bytes_of(mask), mask.data()) == 0;
}

}  // namespace zeroshard
