#include "zeroshard/comm/nccl.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/unwinding.h"
#include "zeroshard/comm/carry_slot.h"
#include "zeroshard/comm/carry_through_host.h"
#include "zeroshard/comm/launch_order.h"
#include "zeroshard/comm/nccl_launches.h"
#include "zeroshard/comm/nccl_library.h"
#include "zeroshard/comm/nccl_trial.h"

namespace zeroshard {
namespace {

class NcclCommunicator final : public CallCommunicator {
 public:
  // `through_host` is this lane's alone.
  NcclCommunicator(std::shared_ptr<LaunchOrder> order, std::unique_ptr<Communicator> through_host,
                   Device device, DeviceSums sums)
      : order_(std::move(order)),
        lane_(order_->add_lane()),
        through_host_(std::move(through_host)),
        device_(device),
        sums_(sums) {}

  // Waits until what it was given is over, unless an exception takes it away.
  ~NcclCommunicator() override {
    if (unwinding_) order_->abandon();
    try {
      last_.wait();
    } catch (const Error&) {  // whoever has the handle hears of it, too
    }
  }

  int rank() const override { return through_host_->rank(); }
  int world_size() const override { return through_host_->world_size(); }
  DeviceSums device_sums() const override { return sums_; }

  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<NcclCommunicator>(order_, through_host_->make_sibling(), device_,
                                              sums_);
  }

 private:
  Handle start(Call call) override {
    return can_move(call) ? launch(std::move(call)) : through_host(call);
  }

  // A list goes one way as a whole. All ranks pass the same kinds of memory, so they choose alike.
  static bool can_move(const Call& call) {
    const auto pair = [](const auto& each) { return NcclLaunches::can_move(each); };
    switch (call.tag.operation) {
      case Operation::all_gather:
        return !call.gathers.empty() && std::ranges::all_of(call.gathers, pair);
      case Operation::reduce_scatter:
        return !call.reduces.empty() && std::ranges::all_of(call.reduces, pair);
      case Operation::broadcast: return uses_device(call.piece.read());
      default: return false;
    }
  }

  Handle launch(Call call) {
    Event ready;
    ready.record(Stream::current(device_));
    last_ = Handle(call.completion);
    order_->submit(lane_, std::move(call), ready);
    return last_;
  }

  // What comes by this way is wrong once what came by the other has failed.
  Handle through_host(const Call& call) {
    const std::exception_ptr failed = order_->failure();
    if (!failed) return pass_on(*through_host_, call);
    call.completion->finish(failed);
    return Handle(call.completion);
  }

  const Unwinding unwinding_;
  const std::shared_ptr<LaunchOrder> order_;
  const int lane_;
  const std::unique_ptr<Communicator> through_host_;
  const Device device_;
  const DeviceSums sums_;
  Handle last_;
};

const NcclLibrary& library_of(const NcclOptions& options) {
  const NcclLibrary* const library = options.library != nullptr ? options.library : nccl_library();
  if (library != nullptr) return *library;
  throw ConfigError({.what = "there is no NCCL for several ranks with a GPU each",
                     .value = missing_nccl(),
                     .remedy = "install the torch for CUDA, which brings it along"});
}

// What the launches have to say to other ranks goes by `said`.
std::unique_ptr<Communicator> over(std::unique_ptr<NcclLaunches> launches,
                                   std::unique_ptr<Communicator> said,
                                   std::unique_ptr<Communicator> hosts, Device device,
                                   const NcclOptions& options) {
  auto order = std::make_shared<LaunchOrder>(
      std::move(said), std::move(launches),
      LaunchOrderOptions{.timeout = options.comm.timeout, .heartbeat = options.heartbeat});
  return std::make_unique<NcclCommunicator>(
      std::move(order), carry_through_host(std::move(hosts), {.device = device}), device,
      options.comm.deterministic ? DeviceSums::rank_order : DeviceSums::library);
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> hosts,
                                                     Device device, const NcclOptions& options) {
  auto launches = std::make_unique<NcclLaunches>(library_of(options), device, options);
  auto said = hosts->make_sibling();
  return over(std::move(launches), std::move(said), std::move(hosts), device, options);
}

TriedNccl try_nccl_communicator(std::unique_ptr<Communicator>& hosts, Device device,
                                const NcclOptions& options) {
  auto launches = std::make_unique<NcclLaunches>(library_of(options), device, options);
  auto said = hosts->make_sibling();
  std::string failed = try_nccl(*launches, *said,
                                {.device = device,
                                 .deterministic = options.comm.deterministic,
                                 .time = std::min(options.trial_time, options.comm.timeout)});
  if (!failed.empty()) return {.failed = std::move(failed)};
  return {.comm = over(std::move(launches), std::move(said), std::move(hosts), device, options)};
}

}  // namespace zeroshard
