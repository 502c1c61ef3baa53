#include "zeroshard/engine/empty_parameter.h"

#include <memory>
#include <mutex>
#include <set>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "zeroshard/engine/init.h"
#include "zeroshard/engine/released_memory.h"

namespace zeroshard {
namespace {

// Where such parameters seem to lie. Never destroyed: tensors may live to the end.
struct Places {
  std::mutex mutex;
  std::set<const void*> all;
};

Places& places() {
  static Places* const only = new Places;
  return *only;
}

}  // namespace

at::Tensor empty_parameter(at::IntArrayRef sizes) {
  if (Init::current() == nullptr) return at::empty(sizes);
  const std::int64_t numel = c10::multiply_integers(sizes);
  const auto range = std::make_shared<ReleasedRange>(
      "(made under Init)", numel * static_cast<std::int64_t>(sizeof(float)));
  {
    const std::lock_guard lock(places().mutex);
    places().all.insert(range->data());
  }
  const auto leave = [range](void* data) {
    const std::lock_guard lock(places().mutex);
    places().all.erase(data);
  };
  return at::for_blob(range->data(), sizes)
      .deleter(leave)
      .options(at::TensorOptions().dtype(at::kFloat))
      .make_tensor();
}

bool has_no_memory(const at::Tensor& tensor) {
  const std::lock_guard lock(places().mutex);
  return places().all.contains(tensor.storage().data());
}

}  // namespace zeroshard
