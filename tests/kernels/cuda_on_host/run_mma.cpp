// Runs the kernel of gpu_mma.py: sizes, how deep a part of k is, and a seed as arguments, A and B on stdin, C on stdout.
// Without arguments it prints the constants that the launch depends on.
#include "mma.h"
#include SOURCE
#include "parts.h"

int main(int count, char** words) {
    constexpr int SHARED = STAGES * BYTES_STAGE;
    if (count == 1) {
        std::printf("%d %d %d %d %d %d\n", TILE_M, TILE_N, TILE_K, THREADS, SHARED, ADDERS * LANES);
        return 0;
    }
    const int m = std::atoi(words[1]), n = std::atoi(words[2]), k = std::atoi(words[3]), batch = std::atoi(words[4]);
    const int depth = std::atoi(words[5]), seed = std::atoi(words[6]);
    const auto a = host::read_input<element>(size_t(batch) * m * k);
    const auto b = host::read_input<element>(size_t(batch) * k * n);
    host::Results results(size_t(batch) * m * n, (k + depth - 1) / depth);
    const unsigned tiles = (m + TILE_M - 1) / TILE_M * ((n + TILE_N - 1) / TILE_N);
    host::launch(tiles * batch * results.parts, 1, THREADS, SHARED, seed,
                 [&] { matmul_mma(a.data(), b.data(), results.written(), m, n, k, depth); });
    results.write(seed);
}
