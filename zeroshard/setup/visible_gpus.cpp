#include "zeroshard/setup/visible_gpus.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <system_error>

#include "zeroshard/base/cgroup.h"
#include "zeroshard/base/leading_number.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

// "Model: 		 NVIDIA H200": what stands behind the name of a line; "" where there is
// none.
std::string value_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos) return {};
    return std::string(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
  }
  return {};
}

std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  for (;;) {
    const std::size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    const std::size_t begin = std::min(entry.find_first_not_of(" \t"), entry.size());
    entry.remove_prefix(begin);
    entries.push_back(entry.substr(0, entry.find_last_not_of(" \t") + 1));
    if (comma == list.npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

// The driver reads numbers as strtoul does: "+1" and "1st" are 1.
std::optional<std::size_t> index_of(std::string_view entry, std::size_t count) {
  if (entry.starts_with('+')) entry.remove_prefix(1);
  const auto number = take_number(entry);
  if (!number || *number < 0 || *number >= static_cast<std::int64_t>(count)) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

// By the beginning of its UUID, which must be one GPU's only.
std::optional<std::size_t> index_of_uuid(std::string_view entry, const std::vector<LocalGpu>& all) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!entry.starts_with("GPU-") || !all[i].uuid.starts_with(entry)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

// The first one decides which kind of names the list has.
std::vector<std::size_t> chosen_indices(const std::vector<LocalGpu>& all, std::string_view list) {
  const bool by_uuid = list.starts_with("GPU-");
  std::vector<std::size_t> chosen;
  for (const std::string_view entry : entries_of(list)) {
    const auto index = by_uuid ? index_of_uuid(entry, all) : index_of(entry, all.size());
    if (!index) break;
    if (std::ranges::find(chosen, *index) != chosen.end()) return {};
    chosen.push_back(*index);
  }
  return chosen;
}

LocalGpu part_of(const LocalGpu& gpu) {
  return {.name = gpu.name, .uuid = {}, .memory_bytes = {}, .is_split = true};
}

// "MIG-GPU-<its UUID>/1/0" names the GPU as well, "MIG-<the part's UUID>" does not.
LocalGpu part_named(const std::vector<LocalGpu>& all, std::string_view name) {
  const std::string_view uuid = name.substr(4, name.find('/') - 4);
  const auto is_it = [&](const LocalGpu& gpu) { return !uuid.empty() && gpu.uuid == uuid; };
  auto whole = std::ranges::find_if(all, is_it);
  if (whole == all.end()) whole = std::ranges::find_if(all, &LocalGpu::is_split);
  return part_of(whole == all.end() ? all.front() : *whole);
}

}  // namespace

std::vector<LocalGpu> gpus_of_driver(const fs::path& root) {
  std::map<fs::path, LocalGpu> by_place;
  std::error_code none;
  for (const auto& folder : fs::directory_iterator(root / "proc/driver/nvidia/gpus", none)) {
    const std::string text = text_of_file(folder.path() / "information");
    const std::string name = value_of(text, "Model:");
    by_place[folder.path().filename()] = {.name = name.empty() ? "GPU" : name,
                                          .uuid = value_of(text, "GPU UUID:")};
  }
  std::vector<LocalGpu> gpus;
  for (auto& [place, gpu] : by_place) gpus.push_back(std::move(gpu));
  return gpus;
}

std::vector<LocalGpu> visible_gpus(const std::vector<LocalGpu>& all,
                                   const std::optional<std::string>& variable) {
  if (all.empty()) return {};
  if (variable && variable->starts_with("MIG-")) return {part_named(all, *variable)};
  std::vector<LocalGpu> visible;
  if (variable) {
    for (const std::size_t index : chosen_indices(all, *variable)) visible.push_back(all[index]);
  } else {
    visible = all;
  }
  const auto split = std::ranges::find_if(visible, &LocalGpu::is_split);
  if (split != visible.end()) return {part_of(*split)};
  return visible;
}

int ranks_for_gpus(std::string_view device, int gpus) {
  const bool takes_all = device.empty() || device == "cuda";
  return takes_all ? std::max(1, gpus) : 1;
}

int gpu_of_rank(int local_rank, int gpus) { return gpus > 0 ? local_rank % gpus : 0; }

}  // namespace zeroshard
