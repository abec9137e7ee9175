// Runs the kernel of gpu_wgmma.py: sizes, the number of blocks and a seed as arguments; the tensor maps of A, B and C,
// then A and B on stdin; C on stdout. Without arguments it prints the constants that the launch depends on.
#include "wgmma.h"
#include SOURCE

int main(int count, char** words) {
    constexpr int SHARED = AT_EMPTY + 8 * STAGES;
    if (count == 1) {
        std::printf("%d %d %d %d\n", CLUSTER * TILE_M, TILE_N, THREADS, SHARED);
        return 0;
    }
    const int m = std::atoi(words[1]), n = std::atoi(words[2]), k = std::atoi(words[3]), batch = std::atoi(words[4]);
    auto maps = host::read_input<TensorMap>(3);
    const auto a = host::read_input<uint16_t>(size_t(batch) * m * k);
    const auto b = host::read_input<uint16_t>(size_t(batch) * k * n);
    std::vector<uint16_t> c(size_t(batch) * m * n, 0xFFFF);
    maps[0].address = reinterpret_cast<uintptr_t>(a.data());
    maps[1].address = reinterpret_cast<uintptr_t>(b.data());
    maps[2].address = reinterpret_cast<uintptr_t>(c.data());
    host::launch(std::atoi(words[5]), CLUSTER, THREADS, SHARED, std::atoi(words[6]),
                 [&] { matmul_wgmma(maps[0], maps[1], maps[2], m, n, k, batch); });
    std::fwrite(c.data(), sizeof(uint16_t), c.size(), stdout);
}
