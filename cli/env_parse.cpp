#include "cli/env_parse.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>

namespace zeroshard::cli {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

// What stands behind "name:" on the first line that begins so.
std::string field_of(std::string_view text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon != line.npos && trimmed(line.substr(0, colon)) == name) {
      return trimmed(line.substr(colon + 1));
    }
  }
  return "";
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// The first word that looks like a version, such as "535.104.05".
std::string first_version(std::string_view text) {
  for (const std::string& word : words_of(text)) {
    const bool digits = word.find_first_not_of("0123456789.") == word.npos;
    if (digits && word.find('.') != word.npos && word.front() != '.') return word;
  }
  return "";
}

}  // namespace

Cpu parse_cpuinfo(std::string_view text) {
  Cpu cpu;
  cpu.model = field_of(text, "model name");
  if (cpu.model.empty()) cpu.model = "unknown";  // ARM's kernels do not tell
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("processor")) ++cpu.online;
  }
  std::vector<std::string> flags = words_of(field_of(text, "flags"));
  if (flags.empty()) flags = words_of(field_of(text, "Features"));  // ARM
  for (const char* name :
       {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16",
        "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "sve", "sve2", "bf16"}) {
    if (has(flags, name)) cpu.instruction_sets.emplace_back(name);
  }
  cpu.optimizer_kernels = optimizer_kernels(flags);
  return cpu;
}

std::string optimizer_kernels(const std::vector<std::string>& cpu_flags) {
  const auto all = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::all_of(names, [&](std::string_view name) { return has(cpu_flags, name); });
  };
  if (all({"avx512f", "avx512bw", "avx512vl", "avx512dq"})) return "avx512";
  return all({"avx2", "f16c"}) ? "avx2" : "scalar";
}

std::map<std::string, std::int64_t> parse_meminfo(std::string_view text) {
  std::map<std::string, std::int64_t> bytes;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string value = trimmed(line.substr(colon + 1));
    if (const auto number = number_of(value)) {
      bytes[line.substr(0, colon)] = *number * (value.ends_with(" kB") ? 1024 : 1);
    }
  }
  return bytes;
}

std::optional<std::string> chosen_word(std::string_view text) {
  const std::size_t begin = text.find('['), end = text.find(']');
  if (begin == text.npos || end == text.npos || end < begin) return std::nullopt;
  return std::string(text.substr(begin + 1, end - begin - 1));
}

std::vector<std::string> memory_cgroups(std::string_view cgroup_text) {
  std::vector<std::string> folders;
  for (const std::string& line : split(cgroup_text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::vector<std::string> controllers =
        split(line.substr(first + 1, second - first - 1), ',');
    if (!controllers.empty() && !has(controllers, "memory")) continue;
    std::string folder = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    folders.push_back(folder);
    for (const std::string& part : split(line.substr(second + 1), '/')) {
      if (part == "..") break;  // the process sits outside of what this namespace shows
      if (!part.empty()) folders.push_back(folder += "/" + part);
    }
  }
  return folders;
}

std::vector<Gpu> parse_nvidia_smi(std::string_view text) {
  std::vector<Gpu> gpus;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() != 4) continue;  // such as "No devices were found"
    Gpu gpu{.name = cells[0], .bus = cells[1], .driver = cells[2], .memory_bytes = {}};
    if (const auto mebibytes = number_of(cells[3])) gpu.memory_bytes = *mebibytes << 20;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Gpu parse_gpu_information(std::string_view text) {
  return {.name = field_of(text, "Model"),
          .bus = field_of(text, "Bus Location"),
          .driver = {},
          .memory_bytes = {}};
}

std::string parse_driver_version(std::string_view text) {
  return first_version(field_of(text, "NVRM version"));
}

std::optional<std::string> library_path(std::string_view loader_text, std::string_view library) {
  for (const std::string& line : split(loader_text, '\n')) {
    const std::vector<std::string> words = words_of(line);  // name => path (address)
    if (words.size() < 3 || words[0] != library || words[1] != "=>") continue;
    const std::size_t begin = line.find("=> ") + 3;  // a path may have blanks in it
    return trimmed(line.substr(begin, line.rfind(" (") - begin));
  }
  return std::nullopt;
}

std::string parse_torch_version(std::string_view text) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with("__version__")) continue;
    const std::size_t begin = line.find_first_of("'\"");
    if (begin == line.npos) return "";
    return line.substr(begin + 1, line.find(line[begin], begin + 1) - begin - 1);
  }
  const std::string first = trimmed(text.substr(0, text.find('\n')));
  return first.find_first_of(" =") == first.npos ? first : "";
}

std::string parse_mpirun_version(std::string_view text) {
  const std::string first = trimmed(text.substr(0, text.find('\n')));
  const std::string number = first_version(first);
  return first.find("Open MPI") == first.npos || number.empty() ? "" : "Open MPI " + number;
}

}  // namespace zeroshard::cli
