// Runs the kernel of gpu_wgmma.py: sizes, how deep a part of k is, the number of blocks and a seed as arguments; the
// tensor maps of A, B and C, then A and B on stdin; C on stdout. Without arguments it prints the constants that the
// launch depends on.
#include "wgmma.h"
#include SOURCE
#include "parts.h"

int main(int count, char** words) {
    constexpr int SHARED = AT_EMPTY + 8 * STAGES;
    if (count == 1) {
        std::printf("%d %d %d %d %d %d\n", CLUSTER * TILE_M, TILE_N, TILE_K, THREADS, SHARED, ADDERS * LANES);
        return 0;
    }
    const int m = std::atoi(words[1]), n = std::atoi(words[2]), k = std::atoi(words[3]), batch = std::atoi(words[4]);
    const int depth = std::atoi(words[5]), seed = std::atoi(words[7]);
    auto maps = host::read_input<TensorMap>(3);
    const auto a = host::read_input<uint16_t>(size_t(batch) * m * k);
    const auto b = host::read_input<uint16_t>(size_t(batch) * k * n);
    host::Results results(size_t(batch) * m * n, (k + depth - 1) / depth);
    maps[0].address = reinterpret_cast<uintptr_t>(a.data());
    maps[1].address = reinterpret_cast<uintptr_t>(b.data());
    maps[2].address = reinterpret_cast<uintptr_t>(results.c.data());
    host::launch(std::atoi(words[6]), CLUSTER, THREADS, SHARED, seed, [&] {
        matmul_wgmma(maps[0], maps[1], maps[2], results.sums.data(), m, n, k, batch, depth);
    });
    results.write(seed);
}
