#include "zeroshard/trainer/measure_machine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/launch.h"
#include "zeroshard/base/thread_pool.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/device/torch_cpu_memory.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/models/layers.h"
#include "zeroshard/monitor/json_lines.h"
#include "zeroshard/optim/update.h"
#include "zeroshard/planner/calibration.h"
#include "zeroshard/planner/collective_time.h"
#include "zeroshard/setup/choose_device.h"
#include "zeroshard/setup/rank_memory.h"
#include "zeroshard/tier/host_mapping.h"

namespace zeroshard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsEach = 0.7;

// Seconds of one call, with all ranks at it: the median of as many as fit into the time. All ranks
// do the same number, which the slowest one decides.
class Timer {
 public:
  Timer(Device device, Communicator& comm) : device_(device), comm_(comm) {}

  double seconds_of(const std::function<void()>& work) {
    work();
    const double once = agreed(time(work), ReduceOp::max);
    const int rounds =
        std::clamp(static_cast<int>(kSecondsEach / std::max(once, 1e-7)), 3, 200'000);
    std::vector<double> seconds;
    const int together = std::max(1, rounds / 50);  // short ones are timed by the dozen
    for (int done = 0; done < rounds; done += together) {
      const double several = time([&] {
        for (int i = 0; i < together; ++i) work();
      });
      seconds.push_back(several / together);
    }
    std::ranges::nth_element(seconds,
                             seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
    return agreed(seconds[seconds.size() / 2], ReduceOp::max);
  }

 private:
  double time(const std::function<void()>& work) {
    Stream::current(device_).synchronize();
    comm_.barrier("measure").wait();
    const auto begin = Clock::now();
    work();
    Stream::current(device_).synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  double agreed(double value, ReduceOp op) {
    auto number = static_cast<float>(value);
    comm_.all_reduce({&number, 1, DType::fp32}, op, "measure").wait();
    return number;
  }

  const Device device_;
  Communicator& comm_;
};

Rate per_second(double amount, double seconds) { return {amount / seconds, true}; }

at::TensorOptions on(Device device, at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(to_torch(device));
}

// As a linear layer and its backward have them.
Rate measure_products(Device device, at::ScalarType dtype, Timer& timer) {
  const bool small = device == kCpu;
  const std::int64_t rows = small ? 512 : 8192, inputs = small ? 512 : 4096;
  const std::int64_t outputs = small ? 2048 : 4096;
  const at::Tensor x = at::randn({rows, inputs}, on(device, at::kFloat)).to(dtype);
  const at::Tensor weight = at::randn({outputs, inputs}, on(device, at::kFloat)).to(dtype);
  const at::Tensor back = at::randn({rows, outputs}, on(device, at::kFloat)).to(dtype);
  const at::NoGradGuard no_grad;
  const bool own = dtype != at::kFloat;
  const double seconds = timer.seconds_of([&] {
    models::apply_linear(x, weight);
    if (own) {  // widened where the CPU has no products of 16-bit numbers
      models::apply_linear(back, weight.t());
      models::apply_linear(back.t(), x.t());
    } else {
      at::mm(back, weight);
      at::mm(back.t(), x);
    }
  });
  return per_second(6.0 * static_cast<double>(rows * inputs * outputs), seconds);
}

// Of a rank's arrays on the host, so that the ranks' together do not fit into caches, whose rate
// nobody asks for.
std::int64_t beyond_caches(int ranks) {
  const std::int64_t all = 4 * last_level_cache_bytes();
  return std::clamp(all / ranks, 64 * kMiB, 1024 * kMiB);
}

// Operators between the products: they read and write, and compute a little.
Rate measure_device_memory(Device device, int ranks, Timer& timer) {
  const std::int64_t width = 1024;
  const std::int64_t bytes = device == kCpu ? beyond_caches(ranks) : 512 * kMiB;
  const std::int64_t rows = bytes / (4 * width);
  const at::Tensor x = at::randn({rows, width}, on(device, at::kFloat));
  const at::Tensor y = at::randn({rows, width}, on(device, at::kFloat));
  const at::NoGradGuard no_grad;
  const double seconds = timer.seconds_of([&] {
    at::add(x, y);
    at::gelu(x, "tanh");
    at::layer_norm(x, {width});
  });
  return per_second(7.0 * static_cast<double>(x.nbytes()), seconds);
}

// One after the other through autograd, each far too small to take any time.
Rate measure_operators(Device device, Timer& timer) {
  constexpr int kOperators = 200;
  const at::Tensor x = at::randn({64}, on(device, at::kFloat)).set_requires_grad(true);
  const double seconds = timer.seconds_of([&] {
    at::Tensor y = x;
    for (int i = 0; i < kOperators; ++i) y = at::add(y, 1.0);
    torch::autograd::backward({y.sum()}, {});
    x.mutable_grad() = at::Tensor();
  });
  return {seconds / (2 * kOperators), true};
}

// Adam on bf16 parameters, by all threads of the rank.
Rate measure_host_updates(int threads, int ranks, Timer& timer) {
  constexpr std::int64_t kEach = 4 + 4 + 4 + 2 + 2;
  const std::int64_t numel = beyond_caches(ranks) / kEach;
  const HostMapping memory(numel * kEach, threads);
  std::byte* const at = memory.data();
  std::memset(at, 0, static_cast<std::size_t>(memory.bytes()));
  ThreadPool pool(threads);
  const AdamOptions adam{.lr = 1e-3};
  const UpdateSpan span{.gradient = at + 14 * numel,
                        .gradient_dtype = DType::bf16,
                        .master = reinterpret_cast<float*>(at),
                        .moments = {reinterpret_cast<float*>(at + 4 * numel),
                                    reinterpret_cast<float*>(at + 8 * numel)},
                        .parameter = at + 12 * numel,
                        .count = numel};
  std::int64_t step = 0;
  const double seconds = timer.seconds_of([&] { update_span(adam, span, {.step = ++step}, pool); });
  return per_second(28.0 * static_cast<double>(numel), seconds);
}

// Through pinned memory, as the engine's rings are.
Rate measure_copies(Device device, bool down, Timer& timer) {
  const std::int64_t bytes = 64 * kMiB;
  DeviceBackend& backend = backend_of(device.kind);
  const auto host = backend.allocate_pinned(device.index, bytes);
  const auto there = backend.allocate(device.index, bytes);
  if (host == nullptr || there == nullptr) return {};
  const Stream stream = Stream::current(device);
  const double seconds = timer.seconds_of([&] {
    if (down) {
      copy_bytes(stream, host.get(), kCpu, there.get(), device, bytes);
    } else {
      copy_bytes(stream, there.get(), device, host.get(), kCpu, bytes);
    }
  });
  return per_second(static_cast<double>(bytes), seconds);
}

struct Network {
  Rate bytes, seconds;
};

// A reduction and a gather of a bucket, from the device's memory; and of next to nothing.
Network measure_network(Device device, Communicator& comm, Timer& timer) {
  const auto sent_each = [&](std::int64_t shard) {
    const std::int64_t ranks = comm.world_size();
    const at::Tensor whole = at::randn({shard * ranks}, on(device, at::kFloat));
    const at::Tensor own = at::randn({shard}, on(device, at::kFloat));
    const Piece all{whole.mutable_data_ptr(), shard * ranks, DType::fp32, device.kind};
    const Piece mine{own.mutable_data_ptr(), shard, DType::fp32, device.kind};
    return timer.seconds_of([&] {
      comm.reduce_scatter_into({{all.read(), mine}}, {}, "measure").wait();
      comm.all_gather_into({{mine.read(), all}}, "measure").wait();
    });
  };
  const std::int64_t shard = 4 * kMiB / 4;
  const double large = sent_each(shard), small = sent_each(64);
  const double sent = 2.0 * 4.0 * static_cast<double>(shard) * (comm.world_size() - 1);
  return {per_second(sent, std::max(large - small, 1e-9)), {small / 2, true}};
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

std::string rate_text(const NamedRate& rate, double value) {
  if (rate.unit == "s") return fmt::format("{:.3g} us", value * 1e6);
  if (rate.unit == "FLOP/s") return fmt::format("{:.4g} GFLOP/s", value / 1e9);
  return fmt::format("{:.4g} GB/s", value / 1e9);
}

void say(const MachineMeasurement& measured, bool json) {
  JsonObject object;
  for (const NamedRate& rate : named_rates()) {
    const Rate& value = measured.rates.*rate.member;
    if (!value.measured) continue;
    object.add(rate.name, value.value);
    if (!json) fmt::print("{:<44}{:>18}\n", rate.meaning, rate_text(rate, value.value));
  }
  if (json) {
    fmt::print("{}\n", JsonObject()
                           .add("host", measured.host)
                           .add("ranks", measured.ranks)
                           .add("threads", measured.threads)
                           .add("rates", object)
                           .text());
  }
  std::fflush(stdout);
}

}  // namespace

MachineMeasurement measure_machine(Device device, Communicator& comm) {
  const RankMemory memory = agree_on_memory(device, {}, comm);
  const bool accelerator = device != kCpu;
  MachineMeasurement measured{.host = host_name(),
                              .date = today(),
                              .accelerator = accelerator,
                              .ranks = memory.ranks_on_host,
                              .threads = at::get_num_threads()};
  if (const auto there = backend_of(device.kind).device_memory(device.index)) {
    measured.device_memory_bytes = there->total;
  }
  Timer timer(device, comm);
  Rates& rates = measured.rates;
  rates.product_flops_32 = measure_products(device, at::kFloat, timer);
  rates.product_flops_16 = measure_products(device, at::kBFloat16, timer);
  rates.device_bytes = measure_device_memory(device, memory.ranks_on_host, timer);
  rates.operator_seconds = measure_operators(device, timer);
  rates.host_update_bytes =
      measure_host_updates(at::get_num_threads(), memory.ranks_on_host, timer);
  rates.copy_down_bytes = measure_copies(device, true, timer);
  rates.copy_up_bytes = measure_copies(device, false, timer);
  if (comm.world_size() == 1) return measured;
  const Network network = measure_network(device, comm, timer);
  const Topology topology{.ranks = comm.world_size(), .ranks_per_node = memory.ranks_on_host};
  if (topology.nodes() == 1) {
    rates.near_bytes = network.bytes;
    rates.collective_seconds = network.seconds;
  } else {  // its latency has hops of both kinds in it, and is kept for neither
    rates.far_bytes = {
        nic_bytes_per_second(topology, gather_route(accelerator), network.bytes.value), true};
  }
  return measured;
}

int measure(const MeasureOptions& options) {
  const Device device = choose_device(options.device, read_launch().local_rank);
  const bool stays_near = read_launch().world_size > 1 && stay_near(device);  // as in training
  if (device == kCpu) keep_torch_cpu_memory();
  const auto comm = join_ranks({}, device);
  choose_threads(*comm, stays_near);
  const MachineMeasurement measured = measure_machine(device, *comm);
  if (comm->rank() != 0) return 0;
  say(measured, options.json);
  const auto file = calibration_file();
  if (file.empty()) return 0;
  Calibration all = Calibration::load(file);
  all.keep(measured);
  all.save(file);
  if (!options.json) fmt::print("kept in {}\n", file.string());
  return 0;
}

}  // namespace zeroshard
