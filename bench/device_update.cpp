// How long an update and a norm take on the first accelerator.
//
//   cmake --build build --target device_update && build/bench/device_update [parameters]
//
// bf16 gradients and parameters, fp32 master and moments: 28 bytes per parameter, 24 with the
// master in two halves, and 2 for the norm.
#include <chrono>
#include <cstdlib>

#include <fmt/core.h>

#include "zeroshard/base/error.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/numeric/arrays.h"
#include "zeroshard/numeric/masters.h"
#include "zeroshard/optim/device_norm.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {
namespace {

constexpr Device kFirst{DeviceKind::cuda, 0};
constexpr int kSegments = 220, kRepeats = 10;

// Milliseconds of one call, the first left out.
template <typename Work>
double time_of(const Work& work) {
  const Stream stream = Stream::current(kFirst);
  work();
  stream.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats; ++i) work();
  stream.synchronize();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / kRepeats;
}

void report(const char* what, double ms, double bytes) {
  fmt::print("{}: {:.2f} ms, {:.2f} TB/s\n", what, ms, bytes / ms / 1e9);
}

struct DeviceArrays {
  std::int64_t count;
  Buffer gradient{kFirst, count * 2}, parameter{kFirst, count * 2}, master{kFirst, count * 4},
      first{kFirst, count * 4}, second{kFirst, count * 4};

  void clear() const {
    for (const Buffer* buffer : {&gradient, &parameter, &master, &first, &second}) {
      write_arrays(kFirst, {{.to = buffer->data(), .count = buffer->bytes() / 4}});
    }
  }

  // Halved: the first half of the masters' memory holds the lower halves.
  std::vector<SegmentUpdate> segments(const OptimizerOptions& options, bool halved) const {
    std::vector<SegmentUpdate> all;
    for (std::int64_t i = 0; i < kSegments; ++i) {
      const std::int64_t begin = count * i / kSegments / 64 * 64;
      const std::int64_t end = count * (i + 1) / kSegments / 64 * 64;
      all.push_back(
          {&options,
           {.gradient = element_at(gradient.data(), begin, DType::bf16),
            .gradient_dtype = DType::bf16,
            .master = halved ? nullptr : static_cast<float*>(master.data()) + begin,
            .master_low = halved ? static_cast<std::uint16_t*>(master.data()) + begin : nullptr,
            .moments = {static_cast<float*>(first.data()) + begin,
                        static_cast<float*>(second.data()) + begin},
            .parameter = element_at(parameter.data(), begin, DType::bf16),
            .count = end - begin},
           {.step = 2}});
    }
    return all;
  }
};

void measure(std::int64_t count) {
  const auto start = std::chrono::steady_clock::now();
  load_array_kernels(kFirst);
  load_update_kernels(kFirst);
  load_norm_kernels(kFirst);
  load_master_kernels(kFirst);
  const std::chrono::duration<double, std::milli> loading =
      std::chrono::steady_clock::now() - start;
  fmt::print("loading the kernels: {:.0f} ms\n", loading.count());
  const DeviceArrays arrays{count};
  arrays.clear();
  const OptimizerOptions adam = AdamOptions{.weight_decay = 0.1};
  const auto size = static_cast<double>(count);
  const auto update = [&](bool halved) { update_on(kFirst, arrays.segments(adam, halved)); };
  report("Adam", time_of([&] { update(false); }), 28 * size);
  report("Adam with halved masters", time_of([&] { update(true); }), 24 * size);
  const MasterHalves halves{static_cast<std::uint16_t*>(arrays.parameter.data()),
                            static_cast<std::uint16_t*>(arrays.gradient.data())};
  auto* const whole = static_cast<float*>(arrays.master.data());
  report("masters into halves", time_of([&] { halve_masters(kFirst, halves, whole, count); }),
         8 * size);
  report("masters from halves", time_of([&] { join_masters(kFirst, whole, halves, count); }),
         8 * size);
  const Buffer scratch(kFirst, norm_scratch_bytes({count}));
  const std::vector<NormSpan> spans{{{{arrays.gradient.data(), DType::bf16, count, 0}}, count}};
  DeviceNorm norm(kFirst);
  const auto run_norm = [&] {
    norm.start(spans, scratch.data());
    norm.finish();
  };
  report("norm", time_of(run_norm), 2 * size);
  const std::vector<ArrayWrite> sum{{.to = arrays.first.data(),
                                     .from = arrays.gradient.data(),
                                     .from_dtype = DType::bf16,
                                     .count = count,
                                     .adds = true}};
  report("bf16 into fp32", time_of([&] { write_arrays(kFirst, sum); }), 10 * size);
  const std::vector<ArrayWrite> copy{{.to = arrays.parameter.data(),
                                      .to_dtype = DType::bf16,
                                      .from = arrays.gradient.data(),
                                      .from_dtype = DType::bf16,
                                      .count = count}};
  report("bf16 to bf16", time_of([&] { write_arrays(kFirst, copy); }), 4 * size);
}

}  // namespace
}  // namespace zeroshard

int main(int argc, char** argv) {
  using namespace zeroshard;
  if (load_accelerators() == 0) {
    fmt::print("device_update: needs an accelerator: {}\n", missing_reason(DeviceKind::cuda));
    return 77;
  }
  try {
    measure(argc > 1 ? std::atoll(argv[1]) : 1'336'000'000);
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
