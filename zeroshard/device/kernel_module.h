// Kernels of our own on an NVIDIA GPU, from PTX text inside this library: the driver compiles it
// for the device at hand, once, and keeps the result in its cache. No CUDA toolkit, header or
// compiler is needed, only libcuda.so.1, which comes with the driver.
//
//   KernelModule& arrays = *new KernelModule("arrays", kArraysPtx, {"write_array",
//   "write_arrays"}); arrays.launch(Stream::current(device), 0, {.blocks = chunks}, {&entry,
//   &count});
//
// A module is never destroyed: the driver may be gone by the time static variables are. It is safe
// to use from any thread, with torch's context current there or none (autograd's threads).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "zeroshard/device/stream.h"

namespace zeroshard {

struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 256;
};

class KernelModule {
 public:
  // `ptx` ends with a zero and stays where it is. `functions` are the names of its kernels.
  KernelModule(std::string name, const char* ptx, std::vector<std::string> functions)
      : name_(std::move(name)), ptx_(ptx), functions_(std::move(functions)) {}
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  // Brings every function to the device; done once, and by launch() where nobody has. Loading may
  // stop the host until streams are idle, so whoever lets a stream wait for a host thread loads
  // first. Throws ConfigError where driver or device are too old.
  void load(Device device);

  // Puts function number `function` into the stream's order of work and returns. `arguments` are
  // the addresses of its arguments, which are copied. What the kernel touches is the caller's care.
  void launch(const Stream& stream, std::size_t function, LaunchShape shape,
              std::initializer_list<const void*> arguments);

 private:
  struct Loaded {
    void* context = nullptr;
    std::vector<void*> functions;
  };

  const Loaded& loaded_on(Device device);
  Loaded load_on(Device device) const;

  const std::string name_;
  const char* const ptx_;
  const std::vector<std::string> functions_;
  std::mutex mutex_;
  std::map<int, Loaded> by_device_;
};

}  // namespace zeroshard
