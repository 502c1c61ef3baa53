#include "zeroshard/comm/mpi.h"

#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/unwinding.h"
#include "zeroshard/comm/mpi_driver.h"

namespace zeroshard {
namespace {

// A communicator, or a sibling: a lane of the driver that they share.
class MpiCommunicator final : public QueuedCommunicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<MpiDriver> driver)
      : driver_(std::move(driver)), lane_(driver_->add_lane()) {}

  // The lane can be another sibling's once its calls are over. Where an exception is on its way out
  // nobody waits, and nobody gets it.
  ~MpiCommunicator() override {
    if (unwinding_) return;
    for (const auto& call : under_way_) {
      while (!call->issued_within(std::chrono::seconds(1))) {
      }
    }
    driver_->free_lane(lane_);
  }

  int rank() const override { return driver_->rank(); }
  int world_size() const override { return driver_->world_size(); }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<MpiCommunicator>(driver_);
  }

 private:
  void submit(Call call) override {
    refuse_device_memory(call, "mpi");
    std::erase_if(under_way_, [](const auto& each) { return each->done(); });
    under_way_.push_back(call.completion);
    driver_->submit(lane_, std::move(call));
  }

  const std::shared_ptr<MpiDriver> driver_;
  const int lane_;
  const Unwinding unwinding_;
  std::vector<std::shared_ptr<Completion>> under_way_;
};

}  // namespace

bool mpi_available() { return true; }

std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions& options,
                                                    const MpiTuning& tuning) {
  ZS_CHECK_GE(tuning.chunk_bytes, 4, "an MPI message holds at least one element");
  ZS_CHECK_LE(tuning.chunk_bytes, std::numeric_limits<int>::max(), "bytes of an MPI message");
  return std::make_unique<MpiCommunicator>(
      std::make_shared<MpiDriver>(options, tuning, MpiThread::of_process()));
}

}  // namespace zeroshard
