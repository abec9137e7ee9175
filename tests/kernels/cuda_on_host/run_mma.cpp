// Runs the kernel of gpu_mma.py: sizes and a seed as arguments, A and B on stdin, C on stdout. Without arguments it
// prints the constants that the launch depends on.
#include "mma.h"
#include SOURCE

int main(int count, char** words) {
    constexpr int SHARED = STAGES * BYTES_STAGE;
    if (count == 1) {
        std::printf("%d %d %d %d\n", TILE_M, TILE_N, THREADS, SHARED);
        return 0;
    }
    const int m = std::atoi(words[1]), n = std::atoi(words[2]), k = std::atoi(words[3]), batch = std::atoi(words[4]);
    const auto a = host::read_input<element>(size_t(batch) * m * k);
    const auto b = host::read_input<element>(size_t(batch) * k * n);
    std::vector<element> c(size_t(batch) * m * n, 0xFFFF);
    const unsigned blocks = (m + TILE_M - 1) / TILE_M * ((n + TILE_N - 1) / TILE_N) * batch;
    host::launch(blocks, 1, THREADS, SHARED, std::atoi(words[5]),
                 [&] { matmul_mma(a.data(), b.data(), c.data(), m, n, k); });
    std::fwrite(c.data(), sizeof(element), c.size(), stdout);
}
