// A machine that is made of files, as the kernel would describe it.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "tests/support/temporary_folder.h"

namespace zeroshard::test {

class MadeUpMachine {
 public:
  std::filesystem::path root() const { return folder_.path(); }

  // Distances as in "10 21"; empty: the kernel does not say.
  void add_node(int number, const std::string& cpus, const std::string& distances = "") const {
    const std::string node = fmt::format("sys/devices/system/node/node{}", number);
    write(node + "/cpulist", cpus);
    if (!distances.empty()) write(node + "/distance", distances);
  }

  void add_gpu(const std::string& bus, int node, const std::string& kind = "0x030200") const {
    add_device(bus, node, kind, "0x10de");
  }
  void add_device(const std::string& bus, int node, const std::string& kind,
                  const std::string& vendor) const {
    const std::string device = "sys/bus/pci/devices/" + bus;
    write(device + "/vendor", vendor);
    write(device + "/class", kind);
    write(device + "/numa_node", std::to_string(node));
  }

  // Two threads to each of the first `cores` CPUs: CPU c and c + cores, as on most servers.
  void add_cores(int cores) const {
    for (int cpu = 0; cpu < 2 * cores; ++cpu) {
      write(fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu),
            fmt::format("{},{}", cpu % cores, cpu % cores + cores));
    }
  }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = root() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

 private:
  const TemporaryFolder folder_;
};

inline std::string gpu_bus(int index) { return fmt::format("0000:{:02x}:00.0", 0x10 + index); }

}  // namespace zeroshard::test
