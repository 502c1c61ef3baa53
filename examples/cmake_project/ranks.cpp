// Three ranks each hold a part; together they have the whole, and sum it. Run it as README.md says:
// zeroshard run --ranks 3 build/ranks
//
// Expected output:
//   3 ranks gathered: 0 1 10 11 20 21
//   sums of rank 0's part over all ranks: 30 33
#include <cstdio>
#include <vector>

#include "zeroshard/comm/join.h"

int main() {
  return zeroshard::rank_main([] {
    const auto comm = zeroshard::join_ranks({});
    const int ranks = comm->world_size();
    const auto first = static_cast<float>(10 * comm->rank());

    const std::vector<float> part{first, first + 1};
    std::vector<float> whole(static_cast<std::size_t>(2 * ranks));
    comm->all_gather_into({{{part.data(), 2}, {whole.data(), 2 * ranks}}}, "gather the parts")
        .wait();

    std::vector<float> mine(static_cast<std::size_t>(2 * ranks));
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = part[i % 2];
    std::vector<float> sums(2);
    comm->reduce_scatter_into({{{mine.data(), 2 * ranks}, {sums.data(), 2}}}, {}, "sum the parts")
        .wait();

    if (comm->rank() != 0) return 0;
    std::printf("%d ranks gathered:", ranks);
    for (const float number : whole) std::printf(" %g", number);
    std::printf("\nsums of rank 0's part over all ranks: %g %g\n", sums[0], sums[1]);
    return 0;
  });
}
