// Writes of arrays on a GPU give the host's bits: few and many at once, any dtype, place and
// number.
#include <deque>
#include <thread>

#include "tests/numeric/array_writes.h"
#include "tests/optim_cuda/device_arrays.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

using testing::DeviceBytes;
using testing::FloatArray;
using testing::kFirst;
using testing::Random;
using testing::WriteCase;

class GpuArrays : public testing::OnGpu {
 protected:
  Random random_{101};

  // The same writes there and here, by one call each.
  void expect_same_bits(std::vector<WriteCase>& all) {
    std::deque<DeviceBytes> to, from;
    std::vector<ArrayWrite> there, here;
    for (WriteCase& one : all) {
      to.emplace_back(one.to.bytes.data(), one.to.bytes.size());
      from.emplace_back(one.from.bytes.data(), one.from.bytes.size());
      const bool has_from = random_.between(0, 5) > 0;
      there.push_back(placed_at(one, to.back().data(), has_from ? from.back().data() : nullptr));
      here.push_back(
          placed_at(one, one.to.bytes.data(), has_from ? one.from.bytes.data() : nullptr));
    }
    write_arrays(kFirst, there);
    write_arrays(kCpu, here);
    for (std::size_t i = 0; i < all.size(); ++i) {
      FloatArray result = all[i].to;
      to[i].copy_to(result.bytes.data());
      ASSERT_EQ(result.bytes == all[i].to.bytes, true)
          << i << ": " << difference(result, all[i].to) << "; " << name_of(there[i].from_dtype)
          << " to " << name_of(there[i].to_dtype) << (there[i].adds ? ", adds" : "");
    }
  }

  std::vector<WriteCase> random_writes(int count, std::int64_t longest) {
    std::vector<WriteCase> all;
    for (int i = 0; i < count; ++i) {
      const std::int64_t length = random_.between(0, longest);
      all.push_back(i % 3 == 0 ? plain_write(random_, length) : random_write(random_, length));
    }
    return all;
  }
};

TEST_F(GpuArrays, One) {
  for (int i = 0; i < 300; ++i) {
    std::vector<WriteCase> all = random_writes(1, i % 10 == 0 ? 50'000 : 40);
    expect_same_bits(all);
  }
}

TEST_F(GpuArrays, FewAndMany) {
  for (const int count : {2, 31, 32, 33, 200}) {
    std::vector<WriteCase> all = random_writes(count, 20'000);
    expect_same_bits(all);
  }
}

TEST_F(GpuArrays, All16BitPatterns) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const DType to : testing::kFloats) {
      WriteCase one = plain_write(random_, 1 << 16);
      one.from = FloatArray(dtype, 1 << 16);
      one.to = FloatArray(to, 1 << 16);
      one.to_begin = one.from_begin = 0;
      one.write.from_dtype = dtype;
      one.write.to_dtype = to;
      one.write.adds = false;
      for (std::uint32_t bits = 0; bits < (1U << 16U); ++bits) {
        reinterpret_cast<std::uint16_t*>(one.from.bytes.data())[bits] =
            static_cast<std::uint16_t>(bits);
      }
      std::vector<WriteCase> all{one};
      expect_same_bits(all);
    }
  }
}

// A thread of its own has no context of the driver's: autograd's are such.
TEST_F(GpuArrays, FromAThreadWithoutAContext) {
  std::vector<float> values(1000, 3.0F);
  const DeviceBytes there = testing::on_device(values);
  std::thread([&] {
    write_arrays(kFirst,
                 {{.to = there.data(), .from = there.data(), .count = 1000, .factor1 = 2.0F}});
    Stream::current(kFirst).synchronize();
  }).join();
  there.copy_to(values.data());
  EXPECT_EQ(values, std::vector<float>(1000, 6.0F));
}

}  // namespace
}  // namespace zeroshard
