// A CUDA device on the host: every thread is a fiber, and a block or cluster of them takes turns in a drawn order.
//
// A fiber runs until it has to wait, so that threads run as far ahead of each other as the program lets them. Drawn
// orders, and copies that happen as late as they may, bring out what is not waited for; whatever is still on its way
// reads as NaN. What a program must not do ends the process with the reason on stderr and status 1.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define CUDA_ON_HOST
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __shared__ static  // of the block that runs, where blocks take turns: not in clusters

using std::min;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Dimensions { unsigned x; };

namespace host {

constexpr int WARP = 32;
constexpr unsigned char UNKNOWN = 0xFF;  // two of them are NaN in both 16-bit types
constexpr std::align_val_t SHARED_ALIGNMENT{1024};
constexpr unsigned SHARED_BASE = 1024;   // of a block's shared memory in its own address space

[[noreturn]] inline void fail(const char* reason) {
    std::fprintf(stderr, "%s\n", reason);
    std::_Exit(1);
}
inline void require(bool holds, const char* otherwise) {
    if (!holds) fail(otherwise);
}

struct Write { unsigned to; uint32_t value; };
struct Copy { unsigned to; const void* from; int bytes; };

struct Block;
struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    Block* block;
    Dimensions index;
    bool (*ready)(void*) = nullptr;  // what it waits for; null if it can run
    void* asked = nullptr;
    bool done = false;
    void* fake_stack = nullptr;

    std::vector<Copy> open;                  // cp.async not yet committed
    std::deque<std::vector<Copy>> groups;    // and committed ones
    std::vector<Write> unfenced;             // generic writes that asynchronous copies need not see
    std::vector<std::function<void()>> open_stores;
    std::deque<std::vector<std::function<void()>>> store_groups;

    int lane() const { return index.x % WARP; }
    int warp() const { return index.x / WARP; }
};

// What the lanes of a warp bring to an instruction that they execute together.
struct Meeting {
    const char* instruction = nullptr;
    void* operands[WARP];
    int arrived = 0;
    unsigned turn = 0;
};

struct Barrier {
    int expected, missing;
    long bytes = 0;
    unsigned phase = 0;
    bool visible = false;
};

struct Multiplication { uint64_t a, b; bool accumulate; };
struct Accumulators {  // of one warp, while its warpgroup's multiplications are under way
    std::vector<float> values[WARP];
    float* registers[WARP];
    bool fenced = false;
    std::vector<Multiplication> open;
    std::deque<std::vector<Multiplication>> groups;
};

struct Block {
    unsigned index, rank;
    unsigned char* shared;
    size_t shared_bytes;
    std::vector<Thread> threads;
    std::vector<Meeting> meetings;
    std::vector<Accumulators> accumulators;
    std::map<unsigned, Barrier> barriers;
    unsigned waiting = 0, turn = 0;  // __syncthreads
    size_t ended = 0;                // threads

    unsigned char* at(unsigned address, size_t bytes) {
        require(address >= SHARED_BASE && address - SHARED_BASE + bytes <= shared_bytes, "outside shared memory");
        return shared + (address - SHARED_BASE);
    }
};

struct Machine {
    std::vector<std::unique_ptr<Block>> blocks;  // of the cluster that runs
    std::vector<std::function<void()>> copies;   // that the copy engine has not finished
    uint64_t random;
    Thread* now = nullptr;
    ucontext_t scheduler;
    const void* scheduler_stack = nullptr;
    size_t scheduler_stack_bytes = 0;
    std::function<void()> kernel;
    unsigned grid = 0, waiting = 0, turn = 0;  // the cluster's barrier

    // A number below `of`: Knuth's MMIX generator, whose upper bits are the random ones.
    size_t draw(size_t of) { return ((random = random * 6364136223846793005u + 1442695040888963407u) >> 33) % of; }
};
inline Machine machine;

inline Thread& self() { return *machine.now; }
inline Block& block() { return *machine.now->block; }

constexpr size_t STACK = 64 * 1024;

inline void entered(void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
    const void* bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
    if (!machine.scheduler_stack) machine.scheduler_stack = bottom, machine.scheduler_stack_bytes = size;
#else
    (void)fake_stack;
#endif
}

inline void leave(Thread& thread) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(thread.done ? nullptr : &thread.fake_stack, machine.scheduler_stack,
                                   machine.scheduler_stack_bytes);
#endif
    swapcontext(&thread.context, &machine.scheduler);
    entered(thread.fake_stack);
}

inline void resume(Thread& thread) {
    machine.now = &thread;
    void* fake_stack = nullptr;
    (void)fake_stack;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fake_stack, thread.stack.get(), STACK);
#endif
    swapcontext(&machine.scheduler, &thread.context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
    machine.now = nullptr;
}

template <class Ready>
void wait_until(Ready ready) {
    if (ready()) return;
    Thread& thread = self();
    thread.asked = &ready;
    thread.ready = [](void* asked) { return (*static_cast<Ready*>(asked))(); };
    leave(thread);
}

inline void begin() {
    entered(nullptr);
    machine.kernel();
    Thread& thread = self();
    require(thread.open.empty() && thread.groups.empty(), "a thread ends before its copies");
    const Accumulators& accumulators = block().accumulators[thread.warp()];
    require(accumulators.open.empty() && accumulators.groups.empty(), "a thread ends before its multiplications");
    require(thread.open_stores.empty() && thread.store_groups.empty(), "a thread ends before its stores are read");
    thread.done = true;
    ++block().ended;
    leave(thread);
}

inline void make_fiber(Thread& thread) {
    thread.stack.reset(new char[STACK]);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = STACK;
    makecontext(&thread.context, begin, 0);
}

// All lanes execute `instruction`; the last to come performs it on what all have brought.
template <class Operands, class Perform>
void together(const char* instruction, Operands& mine, Perform perform) {
    Meeting& meeting = block().meetings[self().warp()];
    require(!meeting.arrived || !std::strcmp(meeting.instruction, instruction), "a warp's lanes are not together");
    meeting.instruction = instruction;
    meeting.operands[self().lane()] = &mine;
    if (++meeting.arrived < WARP) {
        const unsigned turn = meeting.turn;
        wait_until([&] { return meeting.turn != turn; });
        return;
    }
    perform(reinterpret_cast<Operands**>(meeting.operands));
    meeting.arrived = 0;
    ++meeting.turn;
}

// Run blocks `first` to `first + size` as one cluster.
inline void run_cluster(unsigned first, unsigned size, unsigned threads, size_t shared_bytes) {
    machine.blocks.clear();
    std::vector<Thread*> order;
    for (unsigned rank = 0; rank < size; ++rank) {
        auto& block = machine.blocks.emplace_back(new Block);
        block->index = first + rank, block->rank = rank;
        block->shared_bytes = shared_bytes;
        block->shared = static_cast<unsigned char*>(::operator new(shared_bytes, SHARED_ALIGNMENT));
        std::memset(block->shared, UNKNOWN, shared_bytes);
        block->threads.resize(threads);
        block->meetings.resize(threads / WARP);
        block->accumulators.resize(threads / WARP);
        for (unsigned i = 0; i < threads; ++i) {
            Thread& thread = block->threads[i];
            thread.block = block.get();
            thread.index.x = i;
            make_fiber(thread);
            order.push_back(&thread);
        }
    }
    // Now and then a warp or a whole block falls behind, as long as others can go on.
    const Thread* behind = nullptr;
    bool whole_block = false;
    for (size_t left = order.size(); left;) {
        for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[machine.draw(i)]);
        if (!machine.draw(32)) behind = order[0], whole_block = machine.draw(2);
        bool ran = false;
        for (Thread* thread : order) {
            if (thread->done || (thread->ready && !thread->ready(thread->asked))) continue;
            if (behind && thread->block == behind->block && (whole_block || thread->warp() == behind->warp())) continue;
            thread->ready = nullptr;
            resume(*thread);
            ran = true;
            left -= thread->done;
        }
        // Copies are finished in any order, after a while; at the latest when nothing else can go on.
        if (!machine.copies.empty() && (!ran || !machine.draw(4))) {
            std::swap(machine.copies[machine.draw(machine.copies.size())], machine.copies.back());
            auto copy = std::move(machine.copies.back());
            machine.copies.pop_back();
            copy();
            ran = true;
        }
        require(ran || behind || !left, "all threads wait for each other");
        if (!ran) behind = nullptr;
    }
    require(machine.copies.empty(), "the kernel ends before its copies");
    for (auto& block : machine.blocks) ::operator delete(block->shared, SHARED_ALIGNMENT);
}

// Launch a grid of blocks, `cluster` of them at a time; each block's shared memory is as large as given.
inline void launch(unsigned blocks, unsigned cluster, unsigned threads, size_t shared_bytes, unsigned seed,
                   std::function<void()> kernel) {
    machine.random = seed;
    machine.kernel = std::move(kernel);
    machine.grid = blocks;
    for (unsigned first = 0; first < blocks; first += cluster) run_cluster(first, cluster, threads, shared_bytes);
}

// A 16-bit number as the program stores it: bfloat16 is the upper half of a float, float16 is IEEE 754's binary16.
#ifdef BFLOAT16
inline float widen(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

inline uint16_t narrow(float value) {
    if (std::isnan(value)) return 0x7FFF;
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
#else
inline float widen(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                            : exponent == 0 ? std::ldexp(float(fraction), -24)
                                            : std::ldexp(float(fraction + 1024), exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

inline uint16_t narrow(float value) {
    if (std::isnan(value)) return 0x7FFF;
    const int sign = std::signbit(value) ? 0x8000 : 0;
    const float magnitude = std::fabs(value);
    if (magnitude == 0) return static_cast<uint16_t>(sign);  // it has no exponent
    if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7C00);
    int exponent;
    std::frexp(magnitude, &exponent);
    const int step = std::max(exponent - 11, -24);  // the logarithm of the distance between neighbours
    const int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -step)));
    // Of 1024 to 2048 steps, the first 1024 are the exponent's; a carry makes it the next one's.
    return static_cast<uint16_t>(sign | ((step + 24) * 1024 + steps));
}
#endif

template <class Number>
std::vector<Number> read_input(size_t count) {
    std::vector<Number> numbers(count);
    require(std::fread(numbers.data(), sizeof(Number), count, stdin) == count, "too little input");
    return numbers;
}

}  // namespace host

#define threadIdx (host::self().index)
#define blockIdx (Dimensions{host::block().index})
#define gridDim (Dimensions{host::machine.grid})

inline void __syncthreads() {
    host::Block& block = host::block();
    const unsigned turn = block.turn;
    if (++block.waiting == block.threads.size()) {
        block.waiting = 0;
        ++block.turn;
    }
    host::wait_until([&] { return block.turn != turn; });
}

inline void __syncwarp() {
    int nothing = 0;
    host::together("__syncwarp", nothing, [](int**) {});
}

inline unsigned round_pair(float low, float high) {
    return static_cast<unsigned>(host::narrow(high)) << 16 | host::narrow(low);
}
