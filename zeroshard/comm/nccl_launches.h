// Operations on a device's stream, by NCCL. One communicator of NCCL's and one stream, whatever the
// number of lanes (launch_order.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "zeroshard/comm/launch_order.h"
#include "zeroshard/comm/nccl.h"
#include "zeroshard/comm/nccl_library.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/layout/sum_scratch.h"

namespace zeroshard {

class NcclLaunches final : public Launches {
 public:
  NcclLaunches(const NcclLibrary& nccl, Device device, const NcclOptions& options)
      : nccl_(nccl), device_(device), options_(options), patience_(options.comm.timeout) {}
  ~NcclLaunches() override;
  NcclLaunches(const NcclLaunches&) = delete;
  NcclLaunches& operator=(const NcclLaunches&) = delete;

  // Whether all memory of the call is where this can move it: else it goes through the host.
  static bool can_move(const GatherPair& pair);
  static bool can_move(const ReducePair& pair);

  // Collective: makes NCCL's communicator. The first launch does so where nobody did before.
  void meet(LaunchHosts& hosts);
  // Between these, meeting and launching may take so long, and not the communicator's timeout; and
  // what memory they take is given back (nccl_trial.h).
  void begin_trial(std::chrono::milliseconds time) { patience_ = time; }
  void end_trial();

  void enclose(const std::function<void()>& body) override;
  Event launch(const Call& call, const Event& ready, LaunchHosts& hosts) override;
  void check() override;
  void abort() noexcept override;

 private:
  using Result = NcclLibrary::Result;

  Result share_id(NcclLibrary::Id& id, LaunchHosts& hosts) const;
  Result meet_others(const NcclLibrary::Id& id);
  void wait_until_all_have_met(Result begun, const std::exception_ptr& broken, LaunchHosts& hosts);
  void end(Result (*how)(NcclLibrary::Comm)) noexcept;
  void gather(const std::vector<GatherPair>& pairs);
  void reduce_scatter(const std::vector<ReducePair>& pairs, const ReduceOptions& options);
  void reduce_in_rank_order(const std::vector<ReducePair>& pairs, const ReduceOptions& options);
  void broadcast(const Piece& piece, int root);
  NcclLibrary::Sum scaled_sum(DType dtype, float factor);
  void grouped(const std::function<void()>& calls);
  SumOptions sum_options(const ReduceOptions& options) const;
  void begin_scratch(std::int64_t bytes, const ReduceOptions& options);
  std::byte* take_scratch(std::int64_t bytes);
  Result state() const;
  void require(Result result, const char* what) const;
  void settle(Result result, const char* what, std::chrono::milliseconds time) const;

  const NcclLibrary& nccl_;
  const Device device_;
  const NcclOptions options_;
  std::chrono::milliseconds patience_;
  int rank_ = 0;
  int ranks_ = 1;
  std::optional<Stream> stream_;  // made by the first launch
  NcclLibrary::Comm comm_ = nullptr;
  std::map<std::pair<DType, float>, NcclLibrary::Sum> sums_;
  LaunchHosts* hosts_ = nullptr;  // while something is launched
  Buffer own_scratch_;  // of the stream alone, so that one operation after the other may use it
  // Of the reduction that is being launched.
  std::byte* scratch_ = nullptr;
  std::int64_t scratch_end_ = 0, scratch_taken_ = 0;
};

}  // namespace zeroshard
