#include "zeroshard/optim/device_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "zeroshard/base/check.h"
#include "zeroshard/device/kernel_module.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/numeric/device_table.h"
#include "zeroshard/numeric/transfers.h"
#include "zeroshard/optim/device_segment.h"

namespace zeroshard {
namespace {

constexpr char kNormPtx[] =
#include "zeroshard/optim/cuda/norm.ptx.inc"
    ;

constexpr int kNormThreads = 256, kThreadsOfABlock = 4;  // as in cuda/norm.cu

enum NormKernel : std::size_t { kBlocks, kBatches };

KernelModule& norm_kernels() {
  static KernelModule& module =
      *new KernelModule("norm", kNormPtx, {"zs_norm_blocks", "zs_norm_batches"});
  return module;
}

// All spans one behind the other, as the kernels see them.
struct NormTable {
  std::vector<DeviceNormPiece> pieces = {};
  std::vector<DeviceNormBatch> batches = {};
  std::int64_t blocks = 0;

  void add(const NormSpan& span) {
    std::int64_t end = 0;
    for (const NormPiece& piece : span.pieces) {
      ZS_CHECK(piece.offset >= end && piece.count >= 0, "piece at {} of a norm's span, after {}",
               piece.offset, end);
      float_index(piece.dtype);
      end = piece.offset + piece.count;
      if (piece.count == 0) continue;
      pieces.push_back({piece.data, blocks * kNormBlock + piece.offset, piece.count, piece.dtype});
    }
    ZS_CHECK_LE(end, span.count, "pieces of a norm's span");
    const std::int64_t span_end = blocks + norm_blocks(span.count);
    for (; blocks < span_end; blocks += batches.back().blocks) {
      batches.push_back({blocks, std::min(kBlocksInBatch, span_end - blocks)});
    }
  }

  // Pieces, then batches: one copy.
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(pieces.size() * sizeof(DeviceNormPiece) +
                               batches.size() * sizeof(DeviceNormBatch));
    const std::size_t head = pieces.size() * sizeof(DeviceNormPiece);
    if (head > 0) std::memcpy(all.data(), pieces.data(), head);
    std::memcpy(all.data() + head, batches.data(), all.size() - head);
    return all;
  }
};

void launch_sums(const Stream& stream, const NormTable& norm, double* block_sums) {
  const std::vector<std::byte> bytes = norm.bytes();
  const DeviceTable table(stream, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  const auto* const pieces = static_cast<const DeviceNormPiece*>(table.data());
  const auto count = static_cast<int>(norm.pieces.size());
  const auto* const batches = reinterpret_cast<const DeviceNormBatch*>(pieces + count);
  double* const batch_sums = block_sums + norm.blocks;
  const std::int64_t threads = norm.blocks * kThreadsOfABlock;
  norm_kernels().launch(
      stream, kBlocks,
      {.blocks = (threads + kNormThreads - 1) / kNormThreads, .threads = kNormThreads},
      {&pieces, &count, &norm.blocks, &block_sums});
  norm_kernels().launch(
      stream, kBatches,
      {.blocks = static_cast<std::int64_t>(norm.batches.size()), .threads = kNormThreads},
      {&batches, &block_sums, &batch_sums});
}

}  // namespace

void DeviceNorm::start(const std::vector<NormSpan>& spans, void* scratch) {
  NormTable norm;
  batches_.clear();
  for (const NormSpan& span : spans) {
    norm.add(span);
    batches_.push_back(norm_batches(span.count));
  }
  copied_ = {};
  if (norm.batches.empty()) return;
  const Stream stream = Stream::current(device_);
  auto* const sums = static_cast<double*>(scratch);
  launch_sums(stream, norm, sums);
  const auto bytes = static_cast<std::int64_t>(norm.batches.size() * sizeof(double));
  if (results_.bytes() < bytes) results_ = Buffer::pinned(device_, bytes);
  copy_bytes(stream, results_.data(), kCpu, sums + norm.blocks, device_, bytes);
  copied_.record(stream);
}

double DeviceNorm::finish() {
  copied_.synchronize();
  const auto* batch = static_cast<const double*>(results_.data());
  double total = 0.0;
  for (const std::int64_t batches : batches_) {
    double of_span = 0.0;
    for (const double* const end = batch + batches; batch != end; ++batch) of_span += *batch;
    total += of_span;
  }
  return std::isnan(total) ? std::numeric_limits<double>::quiet_NaN() : total;
}

void load_norm_kernels(Device device) { norm_kernels().load(device); }

}  // namespace zeroshard
