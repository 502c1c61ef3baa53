// Which elements of a layer does each of four ranks own? Build and run it as README.md says.
//
// Expected output:
//   weight is [0, 300), bias is [320, 340)
//   rank 0 owns [0, 128)
//   rank 1 owns [128, 256)
//   rank 2 owns [256, 384)
//   rank 3 owns [384, 512)
#include <cstdio>

#include "zeroshard/core.h"

int main() {
  const int world_size = 4;
  const zeroshard::FlatLayout layout({300, 20}, world_size);

  std::printf("weight is %s, bias is %s\n", to_string(layout.parameter_span(0)).c_str(),
              to_string(layout.parameter_span(1)).c_str());
  for (int rank = 0; rank < world_size; ++rank) {
    std::printf("rank %d owns %s\n", rank, to_string(layout.shard(rank)).c_str());
  }
}
