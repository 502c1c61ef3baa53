#include "cli/print_env.h"

#include <fmt/format.h>

#include "cli/json_writer.h"
#include "zeroshard/base/bytes.h"

namespace zeroshard::cli {
namespace {

// Lines of a name and what is to be said of it; a name that is repeated is printed once.
class Page {
 public:
  void add(const std::string& name, const std::string& value) {
    text_ += fmt::format("{:<11}{}\n", name == last_ ? "" : name, value);
    last_ = name;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string last_;
};

std::string plural(std::int64_t count, const std::string& thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

// "product_flops_32 121 G, ..."; of seconds in microseconds.
std::string rates_text(const Rates& rates) {
  std::string text;
  for (const NamedRate& rate : named_rates()) {
    const Rate& value = rates.*rate.member;
    if (!value.measured) continue;
    const bool seconds = rate.unit == "s";
    text += fmt::format("{}{} {:.3g} {}", text.empty() ? "" : ", ", rate.meaning,
                        seconds ? value.value * 1e6 : value.value / 1e9,
                        seconds                 ? "us"
                        : rate.unit == "FLOP/s" ? "GFLOP/s"
                                                : "GB/s");
  }
  return text;
}

std::string bytes_or_unlimited(const std::optional<std::int64_t>& bytes) {
  return bytes ? human_bytes(*bytes) : "unlimited";
}

void add_software(const EnvReport& report, Page& page) {
  const BuildVersions& built = report.built;
  page.add("zeroshard", fmt::format("{} (commit {})", built.zeroshard, built.commit));
  const std::string cuda = built.torch_cuda == "none" ? "" : " for CUDA " + built.torch_cuda;
  page.add("built with", built.torch == "none" ? "no torch" : "torch " + built.torch + cuda);
  page.add("built with", built.mpi == "none" ? "no MPI" : built.mpi);
  page.add("built with",
           built.cuda_toolkit == "none" ? "no CUDA toolkit" : "CUDA toolkit " + built.cuda_toolkit);
  const LoadedTorch& torch = report.torch;
  if (torch.library.empty()) {
    page.add("libtorch", "none: " + torch.problem);
  } else {
    page.add("libtorch",
             fmt::format("{}, {}", torch.version.empty() ? "?" : torch.version, torch.library));
  }
}

void add_machine(const EnvReport& report, Page& page) {
  if (report.gpus.empty()) page.add("GPUs", "none");
  for (const Gpu& gpu : report.gpus) {
    page.add("GPUs", fmt::format("{}{}, bus {}{}", gpu.name,
                                 gpu.memory_bytes ? ", " + human_bytes(*gpu.memory_bytes) : "",
                                 gpu.bus, gpu.driver.empty() ? "" : ", driver " + gpu.driver));
  }
  const Cpu& cpu = report.cpu;
  page.add("CPU", cpu.model);
  page.add("CPU", fmt::format(
                      "{} usable: {} online, {} in the affinity mask, {}", cpu.usable, cpu.online,
                      cpu.affinity,
                      cpu.quota ? fmt::format("{} by the cgroup", *cpu.quota) : "no cgroup quota"));
  page.add("CPU", fmt::format("instruction sets: {}", fmt::join(cpu.instruction_sets, " ")));
  page.add("optimizer",
           fmt::format("{} kernels on {}", cpu.optimizer_kernels, plural(cpu.usable, "thread")));
  const Memory& memory = report.memory;
  const auto& limit = memory.cgroup_limit_bytes;
  page.add("memory", fmt::format("{}, {} available{}", human_bytes(memory.total_bytes),
                                 human_bytes(memory.available_bytes),
                                 limit ? ", the cgroup allows " + human_bytes(*limit) : ""));
}

void add_limits(const Limits& limits, Page& page) {
  page.add("limits", fmt::format("locked memory {}", bytes_or_unlimited(limits.memlock_bytes)));
  page.add("limits",
           fmt::format("open files {}",
                       limits.open_files ? std::to_string(*limits.open_files) : "unlimited"));
  page.add("/dev/shm", limits.shm_total_bytes
                           ? fmt::format("{}, {} free", human_bytes(*limits.shm_total_bytes),
                                         human_bytes(limits.shm_free_bytes.value_or(0)))
                           : "none");
  page.add("huge pages",
           fmt::format("transparent: {}; set aside: {} of {}, {} free",
                       limits.transparent_huge_pages.value_or("not there"), limits.huge_pages,
                       human_bytes(limits.huge_page_bytes), limits.huge_pages_free));
}

void add_measured(const EnvReport& report, Page& page) {
  if (report.measured.empty()) {
    page.add("measured", "nothing; `zeroshard env --measure` measures how fast this machine is");
  }
  for (const MachineMeasurement& one : report.measured) {
    page.add("measured",
             fmt::format("{}, on {} with {}: {}", one.date, one.accelerator ? "GPUs" : "the CPU",
                         plural(one.ranks, "rank"), rates_text(one.rates)));
  }
}

void write_limits(const Limits& limits, JsonWriter& json) {
  json.open_object("limits");
  const auto optional = [&](const char* name, const std::optional<std::int64_t>& value) {
    if (value) json.field(name, *value);
  };
  optional("memlock_bytes", limits.memlock_bytes);
  optional("open_files", limits.open_files);
  optional("shm_total_bytes", limits.shm_total_bytes);
  optional("shm_free_bytes", limits.shm_free_bytes);
  if (limits.transparent_huge_pages) {
    json.field("transparent_huge_pages", *limits.transparent_huge_pages);
  }
  json.field("huge_page_bytes", limits.huge_page_bytes);
  json.field("huge_pages", limits.huge_pages);
  json.field("huge_pages_free", limits.huge_pages_free);
  json.close_object();
}

void write_software(const EnvReport& report, JsonWriter& json) {
  json.field("version", report.built.zeroshard);
  json.field("commit", report.built.commit);
  json.open_object("built_with");
  json.field("torch", report.built.torch);
  json.field("torch_cuda", report.built.torch_cuda);
  json.field("mpi", report.built.mpi);
  json.field("cuda_toolkit", report.built.cuda_toolkit);
  json.close_object();
  json.open_object("libtorch");
  json.field("program", report.torch.program);
  if (report.torch.library.empty()) {
    json.field("problem", report.torch.problem);
  } else {
    json.field("library", report.torch.library);
    json.field("version", report.torch.version);
  }
  json.close_object();
}

void write_gpus(const std::vector<Gpu>& gpus, JsonWriter& json) {
  json.open_list("gpus");
  for (const Gpu& gpu : gpus) {
    json.open_object();
    json.field("name", gpu.name);
    json.field("bus", gpu.bus);
    json.field("driver", gpu.driver);
    if (gpu.memory_bytes) json.field("memory_bytes", *gpu.memory_bytes);
    json.close_object();
  }
  json.close_list();
}

void write_machine(const EnvReport& report, JsonWriter& json) {
  const Cpu& cpu = report.cpu;
  json.open_object("cpu");
  json.field("model", cpu.model);
  json.field("online", cpu.online);
  json.field("affinity", cpu.affinity);
  if (cpu.quota) json.field("cgroup_quota", *cpu.quota);
  json.field("usable", cpu.usable);
  json.list("instruction_sets", cpu.instruction_sets);
  json.field("optimizer_kernels", cpu.optimizer_kernels);
  json.field("optimizer_threads", cpu.usable);
  json.close_object();
  json.open_object("memory");
  json.field("total_bytes", report.memory.total_bytes);
  json.field("available_bytes", report.memory.available_bytes);
  if (report.memory.cgroup_limit_bytes) {
    json.field("cgroup_limit_bytes", *report.memory.cgroup_limit_bytes);
  }
  json.close_object();
}

void write_backends(const std::vector<Backend>& backends, JsonWriter& json) {
  json.open_list("backends");
  for (const Backend& backend : backends) {
    json.open_object();
    json.field("name", backend.name);
    json.field("usable", backend.usable);
    json.field("detail", backend.detail);
    json.close_object();
  }
  json.close_list();
}

}  // namespace

std::string env_text_page(const EnvReport& report) {
  Page page;
  add_software(report, page);
  add_machine(report, page);
  for (const Backend& backend : report.backends) {
    page.add("backends",
             fmt::format("{:<7} {}{}", backend.name, backend.usable ? "" : "no: ", backend.detail));
  }
  add_limits(report.limits, page);
  add_measured(report, page);
  if (report.variables.empty()) page.add("variables", "none set");
  for (const auto& [name, value] : report.variables) {
    page.add("variables", value ? name + "=" + *value : name + " is set");
  }
  for (const std::string& warning : warnings_of(report)) page.add("warning", warning);
  return page.text();
}

std::string env_json(const EnvReport& report) {
  JsonWriter json;
  json.open_object();
  write_software(report, json);
  write_gpus(report.gpus, json);
  write_machine(report, json);
  write_backends(report.backends, json);
  write_limits(report.limits, json);
  json.open_list("variables");
  for (const auto& [name, value] : report.variables) {
    json.open_object();
    json.field("name", name);
    if (value) json.field("value", *value);
    json.close_object();
  }
  json.close_list();
  json.open_list("measured");
  for (const MachineMeasurement& one : report.measured) {
    json.open_object();
    json.field("date", one.date);
    json.field("accelerator", one.accelerator);
    json.field("ranks", one.ranks);
    json.field("threads", one.threads);
    for (const NamedRate& rate : named_rates()) {
      if ((one.rates.*rate.member).measured) json.field(rate.name, (one.rates.*rate.member).value);
    }
    json.close_object();
  }
  json.close_list();
  json.list("warnings", warnings_of(report));
  json.close_object();
  return json.text();
}

}  // namespace zeroshard::cli
