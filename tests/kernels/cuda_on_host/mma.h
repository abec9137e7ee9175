// cp.async, ldmatrix and mma.sync as the PTX ISA defines them: "cp.async", "Warp-level matrix load instruction:
// ldmatrix" and "Matrix Fragments for mma.m16n8k16 with floating point type".
#pragma once

#include "machine.h"

inline unsigned char* dynamic_shared() { return host::block().shared; }

inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - host::block().shared) + host::SHARED_BASE;
}

inline void cp_async_16(unsigned to, const void* from, int bytes) {
    host::require(to % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0, "cp.async is not aligned");
    std::memset(host::block().at(to, 16), host::UNKNOWN, 16);
    host::self().open.push_back({to, from, bytes});
}

inline void cp_async_commit() {
    host::self().groups.push_back(std::move(host::self().open));
    host::self().open.clear();
}

// Copies are made no earlier than they are waited for.
template <int N>
void cp_async_wait() {
    auto& groups = host::self().groups;
    for (; groups.size() > N; groups.pop_front())
        for (const host::Copy& copy : groups.front()) {
            unsigned char* const to = host::block().at(copy.to, 16);
            std::memset(to, 0, 16);
            std::memcpy(to, copy.from, copy.bytes);
        }
}

namespace host {
struct MatrixLoad { unsigned address; unsigned* r; };

// Four 8 x 8 matrices: the rows of matrix i are where lanes 8i to 8i + 7 say. Lane l receives the elements 2(l % 4) and
// 2(l % 4) + 1 of row l / 4, transposed those of column l / 4.
inline void load_matrices(const char* instruction, unsigned (&r)[4], unsigned address, bool transposed) {
    MatrixLoad mine{address, r};
    together(instruction, mine, [&](MatrixLoad** lanes) {
        for (int i = 0; i < 4; ++i) {
            uint16_t matrix[8][8];
            for (int row = 0; row < 8; ++row) {
                const unsigned at = lanes[8 * i + row]->address;
                require(at % 16 == 0, "ldmatrix is not aligned");
                std::memcpy(matrix[row], block().at(at, 16), 16);
            }
            for (int lane = 0; lane < WARP; ++lane) {
                const int major = lane / 4, minor = lane % 4 * 2;
                const unsigned low = transposed ? matrix[minor][major] : matrix[major][minor];
                const unsigned high = transposed ? matrix[minor + 1][major] : matrix[major][minor + 1];
                lanes[lane]->r[i] = high << 16 | low;
            }
        }
    });
}

struct Mma { float* d; const unsigned* a; unsigned b[2]; };

inline float half_of(unsigned pair, int upper) { return widen(static_cast<uint16_t>(upper ? pair >> 16 : pair)); }
}  // namespace host

inline void ldmatrix_x4(unsigned (&r)[4], unsigned address) { host::load_matrices("ldmatrix", r, address, false); }
inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned address) {
    host::load_matrices("ldmatrix.trans", r, address, true);
}

inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    using namespace host;
    Mma mine{d, a, {b0, b1}};
    together("mma.sync", mine, [](Mma** lanes) {
        float a[16][16], b[16][8];
        for (int lane = 0; lane < WARP; ++lane) {
            const int group = lane >> 2, thread = lane % 4;
            for (int i = 0; i < 8; ++i) {
                const int row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
                a[row][thread * 2 + (i & 1) + (i < 4 ? 0 : 8)] = half_of(lanes[lane]->a[i / 2], i & 1);
            }
            for (int i = 0; i < 4; ++i)
                b[thread * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = half_of(lanes[lane]->b[i / 2], i & 1);
        }
        for (int lane = 0; lane < WARP; ++lane)
            for (int i = 0; i < 4; ++i) {
                const int row = (lane >> 2) + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
                float sum = lanes[lane]->d[i];
                for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
                lanes[lane]->d[i] = sum;
            }
    });
}
