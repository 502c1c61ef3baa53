// The tensors inside a unit's arguments and results. A type of your own joins with an overload of
// visit_tensors in its namespace that calls `see` on each tensor.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace zeroshard {

template <typename See>
void visit_tensors(at::Tensor& tensor, const See& see) {
  if (tensor.defined()) see(tensor);
}

// Numbers, strings, options: nothing to see.
template <typename T, typename See>
requires std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>
void visit_tensors(T&, const See&) {}

template <typename T, typename See>
void visit_tensors(std::optional<T>& value, const See& see);
template <typename T, typename See>
void visit_tensors(std::vector<T>& values, const See& see);
template <typename T, std::size_t N, typename See>
void visit_tensors(std::array<T, N>& values, const See& see);
template <typename A, typename B, typename See>
void visit_tensors(std::pair<A, B>& values, const See& see);
template <typename... Ts, typename See>
void visit_tensors(std::tuple<Ts...>& values, const See& see);
template <typename K, typename T, typename See>
void visit_tensors(std::map<K, T>& values, const See& see);

template <typename T, typename See>
void visit_tensors(std::optional<T>& value, const See& see) {
  if (value) visit_tensors(*value, see);
}
template <typename T, typename See>
void visit_tensors(std::vector<T>& values, const See& see) {
  for (T& value : values) visit_tensors(value, see);
}
template <typename T, std::size_t N, typename See>
void visit_tensors(std::array<T, N>& values, const See& see) {
  for (T& value : values) visit_tensors(value, see);
}
template <typename A, typename B, typename See>
void visit_tensors(std::pair<A, B>& values, const See& see) {
  visit_tensors(values.first, see);
  visit_tensors(values.second, see);
}
template <typename... Ts, typename See>
void visit_tensors(std::tuple<Ts...>& values, const See& see) {
  std::apply([&](Ts&... each) { (visit_tensors(each, see), ...); }, values);
}
template <typename K, typename T, typename See>
void visit_tensors(std::map<K, T>& values, const See& see) {
  for (auto& [key, value] : values) visit_tensors(value, see);
}

template <typename T>
std::vector<at::Tensor*> tensors_in(T& value) {
  std::vector<at::Tensor*> found;
  visit_tensors(value, [&](at::Tensor& tensor) { found.push_back(&tensor); });
  return found;
}

}  // namespace zeroshard
