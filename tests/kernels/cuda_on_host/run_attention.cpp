// Runs the kernel of kernels/attention/gpu_mma.py: heads, length, mask, scale and a seed as arguments, Q, K and
// V on stdin, O on stdout. Without arguments it prints the constants that the launch depends on.
#include "mma.h"

namespace host {
struct Exchanged { float value, other; int mask; };
}  // namespace host

// Every lane receives the number of the lane whose number differs from its own in the bits of `mask`.
inline float __shfl_xor_sync(unsigned lanes, float value, int mask) {
    host::require(lanes == 0xFFFFFFFF, "lanes are left out");
    host::Exchanged mine{value, 0, mask};
    host::together("shfl.sync.bfly", mine, [](host::Exchanged** all) {
        for (int lane = 0; lane < host::WARP; ++lane) all[lane]->other = all[lane ^ all[lane]->mask]->value;
    });
    return mine.other;
}

inline float power_of_two(float x) { return std::exp2(x); }

#include SOURCE

int main(int count, char** words) {
    constexpr int SHARED = BYTES_Q + 2 * BYTES_K;
    if (count == 1) {
        std::printf("%d %d %d %d %d\n", HEAD, TILE, KEYS, THREADS, SHARED);
        return 0;
    }
    const int heads = std::atoi(words[1]), n = std::atoi(words[2]), causal = std::atoi(words[3]);
    const float scale = std::strtof(words[4], nullptr);
    const size_t elements = size_t(heads) * n * HEAD;
    const auto q = host::read_input<element>(elements), k = host::read_input<element>(elements);
    const auto v = host::read_input<element>(elements);
    std::vector<element> o(elements, 0xFFFF);
    host::launch(heads * ((n + TILE - 1) / TILE), 1, THREADS, SHARED, std::atoi(words[5]),
                 [&] { attention_mma(q.data(), k.data(), v.data(), o.data(), n, scale, causal); });
    std::fwrite(o.data(), sizeof(element), o.size(), stdout);
}
