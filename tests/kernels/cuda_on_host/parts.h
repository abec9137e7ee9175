// What run_mma.cpp and run_wgmma.cpp do alike: matrices of stdin, C on stdout, and the parts of k in between.
#pragma once

#include "machine.h"

namespace host {

// Where the kernel's results go: into C, or into the sums of every part, which are then added by the program's own
// kernel. What is never written is NaN.
struct Results {
    std::vector<uint16_t> c;
    std::vector<float> sums;
    unsigned parts;

    Results(size_t elements, unsigned parts) : c(elements, 0xFFFF), sums(IN_PARTS ? elements * parts : 0), parts(parts) {
        std::fill(sums.begin(), sums.end(), NAN);
    }
    result* written() { return reinterpret_cast<result*>(IN_PARTS ? static_cast<void*>(sums.data()) : c.data()); }

    void write(unsigned seed) {
        if (IN_PARTS)
            launch((c.size() + 4 * LANES - 1) / (4 * LANES), 1, ADDERS * LANES, 0, seed,
                   [&] { add_parts(sums.data(), c.data(), c.size(), parts); });
        std::fwrite(c.data(), sizeof(uint16_t), c.size(), stdout);
    }
};

}  // namespace host
