#include "zeroshard/trainer/rng_states.h"

#include <cstring>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include "zeroshard/engine/tensors.h"

namespace zeroshard {
namespace {

struct Named {
  const char* name;
  at::Generator generator;
};

std::vector<Named> generators(Device device) {
  std::vector<Named> all{{"rng.cpu", at::detail::getDefaultCPUGenerator()}};
  if (device != kCpu) {
    all.push_back({"rng.cuda", at::globalContext().defaultGenerator(to_torch(device))});
  }
  return all;
}

}  // namespace

std::vector<BlobToSave> rng_blobs(Device device) {
  std::vector<BlobToSave> blobs;
  for (const Named& each : generators(device)) {
    const at::Tensor state = each.generator.get_state().contiguous();
    std::string bytes(static_cast<std::size_t>(state.nbytes()), '\0');
    std::memcpy(bytes.data(), state.const_data_ptr(), bytes.size());
    blobs.push_back({.name = each.name, .of_this_rank = true, .bytes = std::move(bytes)});
  }
  return blobs;
}

void restore_rng(Device device, const ReadBlob& read) {
  for (Named& each : generators(device)) {
    const std::optional<std::string> bytes = read(each.name);
    if (!bytes) continue;
    at::Tensor state = at::empty({static_cast<std::int64_t>(bytes->size())}, at::kByte);
    std::memcpy(state.mutable_data_ptr(), bytes->data(), bytes->size());
    each.generator.set_state(state);
  }
}

}  // namespace zeroshard
