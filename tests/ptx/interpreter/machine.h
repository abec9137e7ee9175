// The state of a launch, and the parts of its execution.
#pragma once
#include <deque>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "clocks.h"
#include "program.h"

namespace ptx {

struct Launch {
    u32 grid[3], block[3];
    u32 dynamic_bytes;
    u64 seed;
    u32 resident;  // blocks (of clusters: clusters) that run at the same time
    u64 limit;     // of executed warp instructions
    bool races;    // whether races are looked for
    bool counts = false;  // whether `tallies` are kept
};

struct Counts {
    u64 warp_instructions, lane_instructions;
    u64 touched_sectors;  // distinct sectors of global memory; 0 without `Launch::counts`
};

// Of one instruction: issue slots, with those in which its predicate excludes all lanes; lanes that executed it; its
// accesses to shared memory and to sectors (32 bytes) of global memory.
struct Tally {
    u64 issued, lanes, wavefronts, conflicts, requests, sectors, used_bytes;
};

struct Block;

// Lanes of a warp at the same instruction.
struct Group {
    u32 pc = 0, mask = 0;
    int barrier = -1;        // at which they wait
    u32 generation = 0;      // of that barrier
    bool timed_out = false;  // whether mbarrier.try_wait has already returned without success here
    struct Join {
        u32 pc, mask;
        bool operator==(const Join& other) const { return pc == other.pc && mask == other.mask; }
    };
    std::vector<Join> joins;  // where they wait for the lanes from which branches separated them; see `meetings`
    bool waits() const { return !joins.empty() && joins.back().pc == pc; }
};

// A cp.async that has not been waited for.
struct SmallCopy {
    u32 to;
    u64 from;
    int bytes, source_bytes;
};

struct LaneCopies {
    std::vector<SmallCopy> open;
    std::deque<std::vector<SmallCopy>> groups;
};

struct PendingWgmma {
    const Instruction* instruction;
    u64 a, b;
    bool accumulate;
    Clock known, proxied;   // by the warp when it issued the instruction, and at its last fence.proxy.async
    std::vector<double> in_registers;  // the warp's 16 rows of A, unless A is in shared memory
};

struct Warp {
    Block* block;
    u32 index;
    u32 alive;
    std::vector<Group> groups;
    std::vector<u64> registers;    // LANES values for each
    std::vector<u32> initialised;  // by register, the lanes in which it is defined
    std::vector<u8> local, local_written;
    u64 sleeps_until = 0;
    LaneCopies copies[LANES];
    std::vector<PendingWgmma> open_wgmma;
    std::deque<std::vector<PendingWgmma>> wgmma_groups;
    std::vector<u8> in_flight;  // by register, the number of unfinished wgmma that use it
    u32 in_flight_count = 0, wgmma_clock = 0;
    std::vector<u8> unfenced;   // registers used since the last wgmma.fence; empty in a kernel without wgmma
};

struct Barrier {
    u32 arrived = 0, expected = 0, generation = 0;  // expected 0: all threads of the block
    std::vector<u32> threads, waiters;              // that have arrived; those among them that wait
};

struct Mbarrier {
    u32 expected = 0, pending = 0, phase = 0;
    s64 transactions = 0;
    Event initialised;
    Clock arriving, completed;
};

struct Cluster {
    std::vector<Block*> blocks;
    u32 arrived = 0, exited = 0, phase = 0;
    Clock arriving, completed;
};

struct Block {
    u32 number, coordinates[3];
    int rank = 0;
    Cluster* cluster = nullptr;
    u32 alive = 0;
    std::vector<u8> shared;
    enum State : u8 { Unwritten, Written, InFlight, BeingStored };
    std::vector<u8> state;  // by byte of shared memory
    std::vector<Cell> cells;
    std::vector<Warp> warps;
    std::vector<ThreadState> threads;
    u32 engine_clock = 0;  // number of bulk loads
    struct StoredBox {
        u32 owner;
        u64 group;
        u32 offset, bytes;
    };
    std::vector<StoredBox> stored_boxes;  // of bulk stores that their owners have not waited for
    struct Visit {
        u32 clock, phase;  // of the visitor, and of the cluster when it arrives next
    };
    std::map<u32, Visit> visits;  // last accesses by threads of other blocks to its shared memory
    u32 waited_phase = 0;         // of the cluster
    Barrier barriers[16];
    std::map<u32, Mbarrier> mbarriers;
    std::unordered_map<u64, Published> published;  // by strong accesses, at addresses of shared memory
};

// What cuTensorMapEncodeTiled describes, in the interpreter's own encoding.
struct TensorMap {
    static constexpr u32 MAGIC = 0x50545854;
    u32 magic;
    u8 rank, element_bytes, swizzle_bytes, unused;
    u64 address;
    u64 strides[4];  // of dimensions 1 and up, in bytes
    u32 sizes[5], box[5];
};
static_assert(sizeof(TensorMap) <= 128);

struct BulkCopy {
    bool store;
    Block* block;  // whose shared memory it reads or writes
    u32 shared;
    TensorMap map;
    s32 start[5];
    u32 mbarrier = 0;
    const Instruction* instruction;
    ThreadState engine;  // of a load, what the copy engine knows: what the issuing thread knew
    u32 owner = 0;       // of a store, the thread of `block` that issued it
    u64 group = 0;       // of the owner's stores
};

class Machine {
public:
    Machine(Memory&, const Kernel&, const Launch&, const u8* parameters);
    Counts run();
    const Kernel& kernel;
    std::vector<u64> executed;   // by instruction, how often a warp executed it
    std::vector<Tally> tallies;  // by instruction; empty without `Launch::counts`
    struct Child {
        std::unique_ptr<Machine> machine;
        u32 block;     // of the thread that launched it
        bool ordered;  // after earlier ones of its block, in the block's default stream
    };
    std::vector<Child> children;  // grids that this grid launched; they run when all of its threads have ended

private:
    Memory& memory;
    const Launch launch;
    std::vector<u8> parameters;
    std::mt19937_64 random;
    u64 steps = 0, lane_steps = 0, generation;
    u32 threads;
    u32 stride;  // of the numbers of a block's actors: its threads, the copy engine, and the wgmma of each warp
    u32 total, started = 0;
    u64 shared_bytes, local_bytes;
    std::vector<std::unique_ptr<Block>> blocks;
    std::map<u32, std::unique_ptr<Cluster>> clusters;
    std::vector<BulkCopy> bulk_copies;
    struct Stores {
        u64 committed = 0, waited = 0;  // groups
        bool open = false;              // whether some are not committed
    };
    std::map<std::pair<u32, u32>, Stores> stores;  // bulk stores by block and thread
    std::unordered_map<u64, Published> published;  // by strong accesses, at addresses of global memory
    Clock sequential;  // what fences of sequential consistency have published
    enum class Access { Load, Store, Atomic };
    // The instruction that is executed, for reports.
    Warp* warp = nullptr;
    const Instruction* current = nullptr;
    int lane = 0;
    const u8* stored = nullptr;  // what a store is about to write

    // schedule.cpp: warps, divergence, barriers
    void start_cluster();
    void fill_specials(Warp&);
    bool step(Warp&);
    bool execute(Warp&, size_t group);
    void branch(Warp&, size_t group, u32 taken);
    void end(Warp&, size_t group, u32 lanes);
    void check_end(Block&);
    void advance(Warp&, size_t group, u32 staying = 0);
    void merge_groups(Warp&);
    void arrive_at_barrier(Warp&, const Instruction&, size_t group, u32 run);
    void release_barriers(Block&);
    void release_cluster(Cluster&);
    void retire(Cluster&);
    bool sweep();
    std::string describe_waiting();
    [[noreturn]] void fail(const char* kind, const std::string& what);

    // scalar.cpp: instructions of one lane
    void execute_scalar(Warp&, const Instruction&, u32 run);
    const u64* read_row(Warp&, const Operand&, u32 run, Row& buffer);   // of defined values
    const u64* speculate(Warp&, const Operand&, Row& buffer);  // of values that may be undefined
    u32 defined_lanes(const Warp& w, const Operand& operand) const {
        return operand.kind != Operand::Row || operand.constant ? FULL_WARP : w.initialised[operand.row];
    }
    void write_undefined(Warp&, const Operand&, u32 lanes);
    u64 read(Warp&, const Operand&, int lane);
    void write(Warp&, const Operand&, int lane, u64 value);

    // children.cpp: launches by kernels
    struct ParameterBuffer {
        const Kernel* kernel;
        u32 owner;  // thread
        Launch launch;
        std::vector<u8> data;
        std::vector<bool> written;
        bool launched;
    };
    std::vector<ParameterBuffer> parameter_buffers;
    void execute_runtime(Warp&, const Instruction&, u32 run);
    u64 get_parameter_buffer(Warp&, const Instruction&);
    void launch_child(Warp&, const Instruction&);
    u64 read_argument(Warp&, const Operand&, int bytes, u64 offset = 0);
    u8* access_launch_parameters(u64 address, int bytes, Access, u32 thread);
    void run_children();

    // access.cpp: spaces, checks, atomics, happens-before
    void execute_memory(Warp&, const Instruction&, u32 run);
    u64 address_of(Warp&, const Operand&, int lane);
    struct Place {
        u8* data;
        Published* published;  // of strong accesses; null in spaces of one thread
    };
    // An access of strength 0 is weak; see Instruction::strength.
    Place access(Warp&, Space, u64 address, int bytes, Access, u8 strength);
    u8* access_shared(Block&, u32 offset, int bytes, Access, u8 strength, u32 thread, const ThreadState&);
    u8* access_global(u64 address, int bytes, Access, u8 strength, u32 thread, const ThreadState&);
    void observe(Cell&, Access, u8 strength, u32 thread, const ThreadState&, bool same_value, unsigned array, u64 byte);
    u32 warp_of(u32 thread) const { return thread / stride * stride + thread % stride / LANES; }
    bool happened_before(const Event&, u32 thread, const ThreadState&) const;
    Block& shared_owner(Block&, u32 address, u32& offset);
    ThreadState& state_of(Warp& w, int l) { return w.block->threads[w.index * LANES + l]; }
    u32 thread_of(const Warp& w, int l) const { return w.block->number * stride + w.index * LANES + l; }
    Clock snapshot(Block&, u32 index);
    Clock join_threads(Block&, const std::vector<u32>& indices);
    void synchronize(Block&, const std::vector<u32>& indices);
    void acquire(ThreadState&, const Clock&);
    u32 scope_number(const Block&, int scope) const;
    void publish(const Instruction&, Published*, Block&, u32 index, bool replaces);
    void observe_published(const Instruction&, const Scopes&, Block&, ThreadState&);
    void fence(const Instruction&, Block&, u32 index);
    u64 combine(const Instruction&, u64 old, u64 a, u64 b);

    // versions.cpp: what strong loads read
    void keep_version(const Instruction&, Published*, const u8* data, u32 thread, const ThreadState&);
    const Version* choose_version(const Instruction&, Published*, u32 thread, ThreadState&);
    bool is_visible(const Event&, u32 thread, const ThreadState&) const;

    // counts.cpp
    std::unordered_set<u64> touched;  // sectors of global memory
    std::vector<u32> meetings;        // by instruction, where all paths from it meet; empty without `Launch::counts`
    void find_meetings();
    bool step_together(Warp&);
    void count_accesses(Warp&, const Instruction&, u32 run);
    void count_global(Tally&, const std::array<u64, LANES>& addresses, u32 lanes, u32 bytes);

    // warp.cpp: votes, shuffles
    bool execute_warp(Warp&, const Instruction&, u32& run);
    bool converge(Warp&, u32& run, const Operand& mask);

    // tensor.cpp
    void execute_tensor(Warp&, const Instruction&);
    void multiply(Warp&, const Instruction&);
    void issue_wgmma(Warp&, const Instruction&);
    void finish_wgmma(Warp&, size_t left);
    void run_wgmma(Warp&, const PendingWgmma&);

    // asynchronous.cpp
    bool execute_asynchronous(Warp&, const Instruction&, Group&, u32 run);
    void finish_copies(Warp&, int lane, size_t left);
    void issue_bulk(Warp&, const Instruction&, u32 run);
    void run_bulk(size_t index);
    void finish_stores(Block&, u32 thread, size_t left);
    Mbarrier& find_mbarrier(Block&, u32 address, Block** owner = nullptr);
    void complete_phase(Mbarrier&);
    u8* read_asynchronously(Block&, u32 address, int bytes, u32 thread, const ThreadState&);
};

}  // namespace ptx
