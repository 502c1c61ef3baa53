// Compiles, links and runs against torch_cpu and c10 with narrow headers. Prints "sum 6".
#include <cstdio>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>

int main() {
  const at::Tensor ones = at::full({2, 3}, 1.0);
  std::printf("sum %g\n", at::sum(ones).item<double>());
}
