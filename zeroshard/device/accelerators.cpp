#include "zeroshard/device/accelerators.h"

#include <filesystem>
#include <string>

#include <ATen/Context.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/device/torch_backend.h"

namespace zeroshard {
namespace {

// Throws with the linker's words. The library stays open: torch keeps pointers into it.
void open_library(const std::string& path, const std::string& meaning) {
  if (dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
  throw ConfigError({.what = fmt::format("{} ({})", meaning, dlerror())});
}

// Both halves lie in one folder, wherever this process has its torch from.
std::string beside_libtorch_cpu(const std::string& library) {
  Dl_info info{};
  const auto* symbol = reinterpret_cast<const void*>(&at::globalContext);
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return library;
  return std::filesystem::path(info.dli_fname).replace_filename(library).string();
}

int install() {
  open_library("libcuda.so.1", "there is no NVIDIA driver");
  open_library(beside_libtorch_cpu("libtorch_cuda.so"), "this torch cannot use CUDA");
  auto backend = make_torch_backend();
  const int devices = backend->device_count();
  if (devices == 0) throw ConfigError({.what = "the NVIDIA driver shows no device"});
  install_backend(DeviceKind::cuda, std::move(backend));
  return devices;
}

int install_or_explain() {
  try {
    return install();
  } catch (const ConfigError& error) {
    explain_missing(DeviceKind::cuda, error.fault().what);
    return 0;
  }
}

}  // namespace

int load_accelerators() {
  static const int devices = install_or_explain();
  return devices;
}

}  // namespace zeroshard
