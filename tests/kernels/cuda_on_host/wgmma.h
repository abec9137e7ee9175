// What a Hopper kernel is made of, as the PTX ISA defines it: "mbarrier", "cp.async.bulk.tensor", "Swizzling Modes",
// "stmatrix", "Shared Memory Matrix Layout" and "Matrix Descriptor Format" of wgmma, "Matrix Fragments for
// wgmma.mma_async.m64nNk16", "wgmma.fence", "wgmma.wait_group" and "barrier.cluster".
#pragma once

#include "machine.h"
#include "tensor_map.h"

inline unsigned dynamic_shared() { return host::SHARED_BASE; }
inline unsigned cluster_rank() { return host::block().rank; }
template <int REGISTERS>
void setmaxnreg_dec() {}
template <int REGISTERS>
void setmaxnreg_inc() {}

inline void cluster_sync() {
    using host::machine;
    const unsigned turn = machine.turn;
    if (++machine.waiting == machine.blocks.size() * machine.blocks[0]->threads.size()) {
        machine.waiting = 0;
        ++machine.turn;
    }
    host::wait_until([=] { return machine.turn != turn; });
}

namespace host {
inline Barrier& barrier_of(Block& block, unsigned address) {
    require(block.ended < block.threads.size(), "the block of an mbarrier has ended");
    const auto found = block.barriers.find(address);
    require(found != block.barriers.end(), "no mbarrier is there");
    return found->second;
}

// A phase is complete when all have arrived and the bytes that were announced have come, as many as that.
inline void check(Barrier& barrier) {
    require(barrier.missing >= 0, "too many arrive at an mbarrier");
    if (barrier.missing || barrier.bytes) return;
    barrier.missing = barrier.expected;
    ++barrier.phase;
}
}  // namespace host

inline void mbarrier_init(unsigned barrier, unsigned arrivals) {
    host::require(barrier % 8 == 0, "an mbarrier is not aligned");
    host::block().at(barrier, 8);
    host::Barrier made{};
    made.expected = made.missing = static_cast<int>(arrivals);
    host::block().barriers[barrier] = made;
}

inline void fence_mbarrier_init() {
    for (auto& [address, barrier] : host::block().barriers) barrier.visible = true;
}

inline void mbarrier_arrive_expect(unsigned address, unsigned bytes) {
    host::Barrier& barrier = host::barrier_of(host::block(), address);
    barrier.bytes += bytes;
    --barrier.missing;
    host::check(barrier);
}

inline void mbarrier_arrive_at(unsigned address, unsigned rank) {
    host::Barrier& barrier = host::barrier_of(*host::machine.blocks.at(rank), address);
    host::require(barrier.visible, "another block cannot see the mbarrier yet");
    --barrier.missing;
    host::check(barrier);
}

// The phase of that parity is complete if the present one is of the other parity.
inline void mbarrier_wait(unsigned address, unsigned parity) {
    host::require(parity <= 1, "a parity is 0 or 1");
    host::Barrier& barrier = host::barrier_of(host::block(), address);
    host::wait_until([&barrier, parity] { return (barrier.phase & 1) != parity; });
}

namespace host {
// The 128-byte swizzle exchanges 16-byte chunks: bits 4-6 of an address are changed by its bits 7-9.
inline unsigned swizzle(unsigned address) { return address ^ (address >> 7 & 7) << 4; }

// Every chunk of a box: where it lies in shared memory and in global memory, null outside the matrix.
template <class Visit>
void walk(const TensorMap& map, unsigned shared, int x, int y, int z, Visit visit) {
    require(shared % 128 == 0, "a box is not aligned to 128 bytes of shared memory");
    require(map.size[0] % 8 == 0 && x % 8 == 0, "the emulation copies chunks of 16 bytes");
    require(map.box[2] == 1 && map.box[0] * 2 == 128, "the emulation copies rows of 128 bytes");
    for (unsigned row = 0; row < map.box[1]; ++row)
        for (unsigned chunk = 0; chunk < 8; ++chunk) {
            const int64_t i = x + 8 * int(chunk), j = y + int64_t(row), k = z;
            const bool inside = i >= 0 && j >= 0 && k >= 0 && uint64_t(i) < map.size[0] && uint64_t(j) < map.size[1] &&
                                uint64_t(k) < map.size[2];
            const uint64_t global = map.address + 2 * i + j * map.stride[0] + k * map.stride[1];
            unsigned char* const element = inside ? reinterpret_cast<unsigned char*>(global) : nullptr;
            visit(swizzle(shared + row * 128 + chunk * 16), element);
        }
}

// Announce the copy by destroying what is there, and let the copy engine do it later.
inline void load_box(Block& block, unsigned to, const TensorMap* map, int x, int y, int z, unsigned barrier) {
    require(barrier_of(block, barrier).visible, "the copy engine cannot see the mbarrier yet");
    walk(*map, to, x, y, z, [&](unsigned at, unsigned char*) { std::memset(block.at(at, 16), UNKNOWN, 16); });
    machine.copies.push_back([=, &block] {
        walk(*map, to, x, y, z, [&](unsigned at, const unsigned char* from) {
            from ? std::memcpy(block.at(at, 16), from, 16) : std::memset(block.at(at, 16), 0, 16);
        });
        Barrier& arrived = barrier_of(block, barrier);
        arrived.bytes -= map->box[0] * map->box[1] * 2;
        check(arrived);
    });
}
}  // namespace host

inline void tma_load(unsigned to, const TensorMap* map, int x, int y, int z, unsigned barrier) {
    host::load_box(host::block(), to, map, x, y, z, barrier);
}

inline void tma_load_multicast(unsigned to, const TensorMap* map, int x, int y, int z, unsigned barrier,
                               unsigned short blocks) {
    for (auto& block : host::machine.blocks)
        if (blocks >> block->rank & 1) host::load_box(*block, to, map, x, y, z, barrier);
}

// Shared memory is read at once or as late as it is waited for.
inline void tma_store(const TensorMap* map, unsigned from, int x, int y, int z) {
    host::Block* const block = &host::block();
    auto store = [=] {
        host::walk(*map, from, x, y, z, [&](unsigned at, unsigned char* to) {
            if (to) std::memcpy(to, block->at(at, 16), 16);
        });
    };
    host::machine.draw(2) ? store() : host::self().open_stores.push_back(store);
}

inline void bulk_commit() {
    host::self().store_groups.push_back(std::move(host::self().open_stores));
    host::self().open_stores.clear();
}

template <int N>
void bulk_wait_read() {
    auto& groups = host::self().store_groups;
    for (; groups.size() > N; groups.pop_front())
        for (const auto& store : groups.front()) store();
}

inline void fence_proxy_async() {
    for (const host::Write& write : host::self().unfenced) std::memcpy(host::block().at(write.to, 4), &write.value, 4);
    host::self().unfenced.clear();
}

namespace host {
struct MatrixStore { unsigned address, r[4]; };
}  // namespace host

// The counterpart of ldmatrix: lane l has two elements of row l / 4 of each matrix. Kept back until the fence, because
// only asynchronous copies read here what it writes.
inline void stmatrix_x4(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
    using namespace host;
    MatrixStore mine{address, {r0, r1, r2, r3}};
    Block& here = block();
    Thread* const lanes_threads = &here.threads[self().warp() * WARP];
    together("stmatrix", mine, [&](MatrixStore** lanes) {
        for (int i = 0; i < 4; ++i)
            for (int lane = 0; lane < WARP; ++lane) {
                const unsigned row = lanes[8 * i + lane / 4]->address;
                require(row % 16 == 0, "stmatrix is not aligned");
                lanes_threads[lane].unfenced.push_back({row + lane % 4 * 4, lanes[lane]->r[i]});
            }
    });
}

namespace host {
inline Accumulators& accumulators() { return block().accumulators[self().warp()]; }

// Element (i, k) of an operand in shared memory with the 128-byte swizzle, i along M or N. T = 8 elements of 2 bytes
// are 16 bytes. K-major: ((8,m),(T,2k)):((8T,SBO),(1,T)). MN-major: ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO)).
inline float operand(uint64_t descriptor, bool mn_major, unsigned i, unsigned k) {
    const unsigned start = (descriptor & 0x3FFF) << 4, leading = (descriptor >> 16 & 0x3FFF) << 4;
    const unsigned stride = (descriptor >> 32 & 0x3FFF) << 4;
    require(descriptor >> 62 == 1, "the emulation knows the 128-byte swizzle only");
    require((descriptor >> 49 & 7) == 0, "the emulation knows the base offset 0 only");
    const unsigned offset = mn_major ? i % 8 * 2 + i / 8 % 8 * 16 + i / 64 * leading + k % 8 * 128 + k / 8 * stride
                                     : i % 8 * 128 + i / 8 * stride + k % 8 * 2 + k / 8 * 16;
    uint16_t bits;
    std::memcpy(&bits, block().at(swizzle(start + offset), 2), 2);
    return widen(bits);
}

// Rows 16w to 16w + 15 of D += A*B, for the warp w of the warpgroup. Lane l has, of each 8 columns, 2(l % 4) and
// 2(l % 4) + 1 in row l / 4 and then in row l / 4 + 8.
inline void multiply(const Multiplication& what, int columns) {
    Accumulators& mine = accumulators();
    const int first = self().warp() % 4 * 16;
    std::vector<float> a(16 * 16), b(16 * columns), sums(columns);
    for (int i = 0; i < 16; ++i)
        for (int k = 0; k < 16; ++k) a[i * 16 + k] = operand(what.a, false, first + i, k);
    for (int k = 0; k < 16; ++k)
        for (int j = 0; j < columns; ++j) b[k * columns + j] = operand(what.b, true, j, k);
    for (int i = 0; i < 16; ++i) {
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (int k = 0; k < 16; ++k)
            for (int j = 0; j < columns; ++j) sums[j] += a[i * 16 + k] * b[k * columns + j];
        for (int j = 0; j < columns; ++j) {
            float& d = mine.values[i % 8 * 4 + j % 8 / 2][j / 8 * 4 + i / 8 * 2 + j % 2];
            d = sums[j] + (what.accumulate ? d : 0.0f);
        }
    }
}

struct WgmmaOperands { float* d; uint64_t a, b; int accumulate; };
}  // namespace host

inline void wgmma_fence() {
    int nothing = 0;
    host::together("wgmma.fence", nothing, [](int**) { host::accumulators().fenced = true; });
}

// Multiplied when it is waited for. Until then the registers are not the program's: they hold NaN.
template <int SUMS>
void wgmma_m64n256k16(float (&d)[SUMS], uint64_t a, uint64_t b, int accumulate) {
    static_assert(SUMS == 64 * 256 / 128);
    host::WgmmaOperands mine{d, a, b, accumulate};
    host::together("wgmma.mma_async", mine, [](host::WgmmaOperands** lanes) {
        host::Accumulators& warp = host::accumulators();
        host::require(warp.fenced, "wgmma without wgmma.fence before");
        const bool under_way = !warp.open.empty() || !warp.groups.empty();
        for (int lane = 0; lane < host::WARP; ++lane) {
            const host::WgmmaOperands& its = *lanes[lane];
            host::require(its.a == lanes[0]->a && its.b == lanes[0]->b && its.accumulate == lanes[0]->accumulate,
                          "the operands of wgmma differ among lanes");
            host::require(!under_way || warp.registers[lane] == its.d, "two sets of accumulators at once");
            if (!under_way) warp.registers[lane] = its.d, warp.values[lane].assign(its.d, its.d + SUMS);
            std::fill(its.d, its.d + SUMS, NAN);
        }
        warp.open.push_back({lanes[0]->a, lanes[0]->b, lanes[0]->accumulate != 0});
    });
}

inline void wgmma_commit() {
    int nothing = 0;
    host::together("wgmma.commit_group", nothing, [](int**) {
        host::Accumulators& warp = host::accumulators();
        warp.groups.push_back(std::move(warp.open));
        warp.open.clear();
        warp.fenced = false;
    });
}

template <int N>
void wgmma_wait() {
    int nothing = 0;
    host::together("wgmma.wait_group", nothing, [](int**) {
        host::Accumulators& warp = host::accumulators();
        const bool under_way = !warp.groups.empty();
        for (; warp.groups.size() > N; warp.groups.pop_front())
            for (const host::Multiplication& what : warp.groups.front()) host::multiply(what, 256);
        if (under_way && warp.groups.empty() && warp.open.empty())
            for (int lane = 0; lane < host::WARP; ++lane)
                std::copy(warp.values[lane].begin(), warp.values[lane].end(), warp.registers[lane]);
    });
}
