// The cut of a call into parts: every element once, in order, and within the slot.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/comm/carry_slot.h"

namespace zeroshard {
namespace {

constexpr DType kDTypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::uint8};

struct Region {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Call call_of(Operation operation) {
  Call call;
  call.tag.operation = operation;
  return call;
}

void expect_apart(const std::vector<Region>& regions, std::int64_t slot_bytes) {
  std::int64_t end = 0;
  for (const Region& region : regions) {
    EXPECT_GE(region.begin, end);
    EXPECT_EQ(region.begin % 4, 0) << "any dtype may lie there";
    end = region.end;
  }
  EXPECT_LE(end, slot_bytes);
}

TEST(CarryParts, RandomGathersAndReductionsAreCutExactly) {
  std::mt19937 random(3);
  int dummy = 0;
  for (int round = 0; round < 300; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 5);
    const std::int64_t slot_bytes = slot_bytes_for(1 + random() % 300, ranks);
    const bool gather = round % 2 == 0;
    Call call = call_of(gather ? Operation::all_gather : Operation::reduce_scatter);
    std::vector<std::int64_t> expected;  // elements of each pair that are carried
    for (std::size_t i = random() % 6; i > 0; --i) {
      const std::int64_t share = random() % 3 == 0 ? 0 : random() % 500;
      const bool on_device = random() % 4 != 0;
      const DeviceKind kind = on_device ? DeviceKind::cuda : DeviceKind::cpu;
      const DType in = kDTypes[random() % 3], out = gather || random() % 2 ? in : DType::fp32;
      const std::int64_t all = share * ranks;
      if (gather) call.gathers.push_back({{&dummy, share, in, kind}, {&dummy, all, in, kind}});
      if (!gather) call.reduces.push_back({{&dummy, all, in, kind}, {&dummy, share, out, kind}});
      expected.push_back(on_device ? share : 0);
    }
    const std::vector<Part> parts = cut_into_parts(call, ranks, slot_bytes);
    std::vector<std::int64_t> seen(expected.size());
    for (std::size_t at = 0; at < parts.size(); ++at) {
      EXPECT_EQ(parts[at].first, at == 0);
      EXPECT_EQ(parts[at].last, at + 1 == parts.size());
      std::vector<Region> regions;
      for (const Slice& slice : parts[at].slices) {
        EXPECT_EQ(slice.begin, seen[slice.pair]);
        EXPECT_GT(slice.count, 0);
        seen[slice.pair] += slice.count;
        const DType in =
            gather ? call.gathers[slice.pair].in.dtype : call.reduces[slice.pair].in.dtype;
        const std::int64_t all_bytes = slice.count * ranks * bytes_of(in);
        if (gather) {
          regions.push_back({slice.out_offset, slice.out_offset + all_bytes});
        } else {
          const DType out = call.reduces[slice.pair].out.dtype;
          regions.push_back({slice.in_offset, slice.in_offset + all_bytes});
          regions.push_back({slice.out_offset, slice.out_offset + slice.count * bytes_of(out)});
        }
      }
      expect_apart(regions, slot_bytes);
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST(CarryParts, ManySmallPairsShareAPart) {
  int dummy = 0;
  Call call = call_of(Operation::all_gather);
  for (int i = 0; i < 50; ++i) {
    call.gathers.push_back(
        {{&dummy, 10, DType::bf16, DeviceKind::cuda}, {&dummy, 20, DType::bf16, DeviceKind::cuda}});
  }
  EXPECT_EQ(cut_into_parts(call, 2, slot_bytes_for(4 << 20, 2)).size(), 1U);
}

}  // namespace
}  // namespace zeroshard
