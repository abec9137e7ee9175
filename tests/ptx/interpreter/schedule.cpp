// Which warp runs next, divergence and reconvergence, barriers of a block, and what is known of warps that wait.
#include <algorithm>

#include "machine.h"

namespace ptx {

static u64 launches = 0;

Machine::Machine(Memory& memory, const Kernel& kernel, const Launch& launch, const u8* given)
    : kernel(kernel), memory(memory), launch(launch), parameters(given, given + kernel.parameter_bytes),
      random(launch.seed), generation(++launches) {
    u64 size = 1, number = 1;
    for (int d = 0; d < 3; ++d) size *= launch.block[d], number *= launch.grid[d];
    auto invalid = [](const std::string& what) { throw Error(what, "launch"); };
    if (size < 1 || size > 1024) invalid(print("a block of %llu threads", static_cast<unsigned long long>(size)));
    if (kernel.max_threads && size > kernel.max_threads)
        invalid(print("blocks of %llu threads; the kernel is compiled for %u", static_cast<unsigned long long>(size), kernel.max_threads));
    if (number < 1 || number > 1000000) invalid(print("a grid of %llu blocks; the interpreter runs 1 to 1,000,000", static_cast<unsigned long long>(number)));
    if (number % kernel.cluster) invalid(print("the blocks are not clusters of %d", kernel.cluster));
    if (kernel.shared_bytes > 48 * 1024) invalid("more than 48 KiB of static shared memory");
    threads = static_cast<u32>(size);
    stride = threads + 1 + (threads + LANES - 1) / LANES;
    total = static_cast<u32>(number);
    u64 end = kernel.shared_bytes;
    if (kernel.dynamic_row >= 0) end = kernel.constants[kernel.dynamic_row][0];
    shared_bytes = end + launch.dynamic_bytes;
    if (shared_bytes > 227 * 1024) invalid(print("%llu bytes of shared memory; a block has at most 227 KiB", static_cast<unsigned long long>(shared_bytes)));
    local_bytes = kernel.local_bytes;
    executed.assign(kernel.code.size(), 0);
    if (launch.counts) {
        tallies.assign(kernel.code.size(), {});
        find_meetings();
    }
}

void Machine::fail(const char* kind, const std::string& what) {
    const int line = current ? current->line : 0;
    const int block = warp ? static_cast<int>(warp->block->number) : -1;
    const int thread = warp ? static_cast<int>(warp->index * LANES + lane) : -1;
    throw Error(print("%s (block %d, thread %d, %s:%d: %.200s)", what.c_str(), block, thread, kernel.name.c_str(), line,
                      current ? current->text.c_str() : ""),
                kind, line, block, thread);
}

void Machine::start_cluster() {
    auto cluster = std::make_unique<Cluster>();
    for (int rank = 0; rank < kernel.cluster; ++rank) {
        auto block = std::make_unique<Block>();
        block->number = started++;
        block->coordinates[0] = block->number % launch.grid[0];
        block->coordinates[1] = block->number / launch.grid[0] % launch.grid[1];
        block->coordinates[2] = block->number / launch.grid[0] / launch.grid[1];
        block->rank = rank;
        block->cluster = cluster.get();
        block->alive = threads;
        block->shared.assign(shared_bytes, 0xa5);
        block->state.assign(shared_bytes, Block::Unwritten);
        if (launch.races) block->cells.resize(shared_bytes / kernel.least_granule + 1);
        block->threads.resize(threads);
        block->warps.resize((threads + LANES - 1) / LANES);
        for (u32 index = 0; index < block->warps.size(); ++index) {
            Warp& w = block->warps[index];
            w.block = block.get();
            w.index = index;
            const u32 left = std::min<u32>(threads - index * LANES, LANES);
            w.alive = left == LANES ? FULL_WARP : (1u << left) - 1;
            w.groups.push_back({});
            w.groups[0].mask = w.alive;
            const size_t registers = kernel.register_names.size();
            w.registers.assign(registers * LANES, 0);
            w.initialised.assign(registers, 0);
            w.local.assign(local_bytes * LANES, 0xa5);
            w.local_written.assign(local_bytes * LANES, 0);
            if (kernel.uses_wgmma) {
                w.in_flight.assign(registers, 0);
                w.unfenced.assign(registers, 1);
            }
            fill_specials(w);
        }
        cluster->blocks.push_back(block.get());
        blocks.push_back(std::move(block));
    }
    clusters[cluster->blocks[0]->number] = std::move(cluster);
}

void Machine::fill_specials(Warp& w) {
    const Block& b = *w.block;
    for (auto [special, row] : kernel.specials) {
        w.initialised[row] = FULL_WARP;
        for (u32 l = 0; l < LANES; ++l) {
            const u32 t = w.index * LANES + l, own = 1u << l, before = own - 1;
            const u64 value = [&, special = special]() -> u64 {
                switch (special) {
                    case Special::TidX: return t % launch.block[0];
                    case Special::TidY: return t / launch.block[0] % launch.block[1];
                    case Special::TidZ: return t / launch.block[0] / launch.block[1];
                    case Special::NtidX: return launch.block[0];
                    case Special::NtidY: return launch.block[1];
                    case Special::NtidZ: return launch.block[2];
                    case Special::CtaidX: return b.coordinates[0];
                    case Special::CtaidY: return b.coordinates[1];
                    case Special::CtaidZ: return b.coordinates[2];
                    case Special::NctaidX: return launch.grid[0];
                    case Special::NctaidY: return launch.grid[1];
                    case Special::NctaidZ: return launch.grid[2];
                    case Special::Laneid: return l;
                    case Special::Warpid: return w.index;
                    case Special::Nwarpid: return (threads + LANES - 1) / LANES;
                    case Special::Smid: return b.number % launch.resident;
                    case Special::Nsmid: return launch.resident;
                    case Special::Gridid: return generation;
                    case Special::LanemaskEq: return own;
                    case Special::LanemaskLe: return own | before;
                    case Special::LanemaskLt: return before;
                    case Special::LanemaskGe: return ~before;
                    case Special::LanemaskGt: return ~(own | before);
                    case Special::ClusterCtarank: case Special::ClusterCtaidX: return static_cast<u64>(b.rank);
                    case Special::ClusterNctarank: case Special::ClusterNctaidX: return static_cast<u64>(kernel.cluster);
                    case Special::ClusteridX: return b.number / kernel.cluster;
                    case Special::NclusteridX: return total / kernel.cluster;
                    case Special::DynamicSmemSize: return launch.dynamic_bytes;
                    case Special::TotalSmemSize: return shared_bytes;
                    case Special::Clock: return 0;
                }
                return 0;
            }();
            w.registers[static_cast<size_t>(row) * LANES + l] = value;
        }
    }
}

Counts Machine::run() {
    u32 idle = 0;
    while (true) {
        while (started < total && clusters.size() < launch.resident) start_cluster();
        if (blocks.empty()) {
            run_children();
            return {steps, lane_steps, touched.size()};
        }
        Block& block = *blocks[random() % blocks.size()];
        Warp& w = block.warps[random() % block.warps.size()];
        bool moved = false;
        if (w.alive && w.sleeps_until <= steps) {
            for (u64 quantum = 1 + random() % 100; quantum && w.alive && w.sleeps_until <= steps; --quantum) {
                if (!step(w)) break;
                moved = true;
            }
        }
        if (!bulk_copies.empty() && random() % 4 == 0) {
            run_bulk(random() % bulk_copies.size());
            moved = true;
        }
        if (!block.alive) {
            retire(*block.cluster);
            continue;
        }
        if (moved) idle = 0;
        else if (++idle > 64 && !sweep()) throw Error("deadlock:" + describe_waiting(), "deadlock");
        if (steps > launch.limit)
            throw Error(print("no end after %llu instructions:", static_cast<unsigned long long>(steps)) + describe_waiting(), "limit");
    }
}

// Tries every warp once; returns whether one moved, or a copy could be completed.
bool Machine::sweep() {
    bool moved = false;
    for (auto& block : blocks) {
        for (Warp& w : block->warps) {
            if (!w.alive) continue;
            if (w.sleeps_until > steps) w.sleeps_until = 0, moved = true;
            else moved |= step(w);
        }
    }
    if (!moved && !bulk_copies.empty()) {
        run_bulk(0);
        return true;
    }
    for (auto& block : blocks) moved |= !block->alive;  // it is retired when it is chosen
    return moved;
}

void Machine::retire(Cluster& cluster) {
    for (Block* block : cluster.blocks)
        if (block->alive) return;
    for (size_t k = 0; k < bulk_copies.size();) {
        if (bulk_copies[k].block->cluster != &cluster) ++k;
        else throw Error("a block ended before a copy into its shared memory", "in-flight", bulk_copies[k].instruction->line,
                         static_cast<int>(bulk_copies[k].block->number));
    }
    const u32 first = cluster.blocks[0]->number;
    const Cluster* pointer = &cluster;
    blocks.erase(std::remove_if(blocks.begin(), blocks.end(), [&](const auto& block) { return block->cluster == pointer; }),
                 blocks.end());
    clusters.erase(first);
}

std::string Machine::describe_waiting() {
    std::string text;
    int described = 0;
    for (const auto& block : blocks) {
        for (const Warp& w : block->warps) {
            for (const Group& g : w.groups) {
                if (++described > 12) return text + " …";
                const size_t at = g.barrier >= 0 && g.pc ? g.pc - 1 : g.pc;
                text += print(" [block %u warp %u lanes %#x %s line %d: %.80s]", block->number, w.index, g.mask,
                              g.barrier >= 0 ? "waits at a barrier," : "at", at < kernel.code.size() ? kernel.code[at].line : 0,
                              at < kernel.code.size() ? kernel.code[at].text.c_str() : "the end");
            }
        }
    }
    return text;
}

void Machine::merge_groups(Warp& w) {
    for (size_t a = 0; a < w.groups.size(); ++a) {
        for (size_t b = a + 1; b < w.groups.size();) {
            if (w.groups[a].pc == w.groups[b].pc && w.groups[a].barrier < 0 && w.groups[b].barrier < 0) {
                w.groups[a].mask |= w.groups[b].mask;
                w.groups[a].timed_out |= w.groups[b].timed_out;
                w.groups.erase(w.groups.begin() + b);
            } else ++b;
        }
    }
}

// Executes one instruction of the group that is furthest behind, so that lanes meet again; now and then of another one.
bool Machine::step(Warp& w) {
    warp = &w;
    if (launch.counts) return step_together(w);
    if (w.groups.size() == 1) return execute(w, 0);
    merge_groups(w);
    std::sort(w.groups.begin(), w.groups.end(), [](const Group& a, const Group& b) { return a.pc < b.pc; });
    const size_t count = w.groups.size(), first = random() % 16 ? 0 : random() % count;
    for (size_t k = 0; k < count; ++k)
        if (execute(w, (first + k) % count)) return true;
    return false;
}

void Machine::advance(Warp& w, size_t group, u32 staying) {
    Group& g = w.groups[group];
    if (staying) {
        Group rest = g;
        rest.mask = staying;
        g.mask &= ~staying;
        ++g.pc;
        w.groups.push_back(rest);
    } else ++g.pc;
}

bool Machine::execute(Warp& w, size_t group) {
    Group& g = w.groups[group];
    if (g.barrier >= 0) {
        if (w.block->barriers[g.barrier].generation == g.generation) return false;
        g.barrier = -1;
        return true;
    }
    if (g.pc >= kernel.code.size()) {
        end(w, group, g.mask);
        return true;
    }
    const Instruction& i = kernel.code[g.pc];
    current = &i;
    lane = __builtin_ctz(g.mask);
    u32 run = g.mask;
    if (i.guard >= 0) {
        const u32 undefined = g.mask & ~w.initialised[i.guard];
        if (undefined) {
            lane = __builtin_ctz(undefined);
            fail("uninitialised", "predicate " + kernel.register_names[i.guard] + " is undefined");
        }
        const u64* row = &w.registers[static_cast<size_t>(i.guard) * LANES];
        u32 set = 0;
        for (int l = 0; l < LANES; ++l) set |= static_cast<u32>(row[l] & 1) << l;
        run &= i.guard_negated ? ~set : set;
    }
    if (!run) {
        ++steps;
        if (launch.counts) ++tallies[g.pc].issued;
        advance(w, group);
        return true;
    }
    lane = __builtin_ctz(run);
    if (i.has(ALIGNED) && run != w.alive) return false;  // until the other lanes come
    u32 active = run;
    try {
        if (launch.counts) count_accesses(w, i, run);
        if (i.op <= Op::Isspacep) {
            execute_scalar(w, i, run);
            advance(w, group);
        } else if (i.op <= Op::Prefetch) {
            execute_memory(w, i, run);
            advance(w, group);
        } else if (i.op <= Op::BarArrive) {
            switch (i.op) {
                case Op::Bra: branch(w, group, run); break;
                case Op::Ret: end(w, group, run); break;
                case Op::Trap: fail("trap", "the kernel stops itself");
                case Op::Nanosleep:
                    w.sleeps_until = steps + 1 + random() % 200;
                    advance(w, group);
                    break;
                default: arrive_at_barrier(w, i, group, run);
            }
        } else if (i.op <= Op::GetLastError) {
            execute_runtime(w, i, run);
            advance(w, group);
        } else if (i.op <= Op::Elect) {
            if (!execute_warp(w, i, active)) return false;
            advance(w, group, run & ~active);
        } else if (i.op <= Op::Setmaxnreg) {
            execute_tensor(w, i);
            advance(w, group);
        } else {
            if (!execute_asynchronous(w, i, g, run)) return false;
            advance(w, group);
        }
    } catch (const Error& error) {
        if (error.block >= 0) throw;
        fail(error.kind, error.what());  // adds the place
    } catch (const std::out_of_range&) {
        fail("syntax", "operands are missing");
    }
    ++steps;
    ++executed[&i - kernel.code.data()];
    lane_steps += __builtin_popcount(active);
    if (launch.counts) {
        Tally& tally = tallies[&i - kernel.code.data()];
        ++tally.issued;
        tally.lanes += __builtin_popcount(active);
    }
    return true;
}

void Machine::branch(Warp& w, size_t group, u32 taken) {
    Group& g = w.groups[group];
    const Instruction& i = kernel.code[g.pc];
    if (taken == g.mask) {
        g.pc = i.target;
        return;
    }
    if (i.has(UNIFORM)) fail("convergence", "lanes diverge at bra.uni");
    if (launch.counts && meetings[g.pc] < kernel.code.size()) g.joins.push_back({meetings[g.pc], g.mask});
    Group other = g;
    other.mask = taken;
    other.pc = i.target;
    g.mask &= ~taken;
    ++g.pc;
    w.groups.push_back(other);
}

void Machine::end(Warp& w, size_t group, u32 lanes) {
    Block& block = *w.block;
    Cluster& cluster = *block.cluster;
    for (u32 left = lanes; left; left &= left - 1) {
        lane = __builtin_ctz(left);
        finish_copies(w, lane, 0);
        auto issued = stores.find({block.number, w.index * LANES + lane});
        if (issued != stores.end() && (issued->second.open || issued->second.waited < issued->second.committed))
            fail("in-flight", "the thread ends before its bulk stores have read shared memory");
        if (block.threads[w.index * LANES + lane].cluster_phase != cluster.phase + 1) ++cluster.exited;
    }
    w.alive &= ~lanes;
    block.alive -= __builtin_popcount(lanes);
    Group& g = w.groups[group];
    g.mask &= ~lanes;
    if (g.mask) ++g.pc;
    else w.groups.erase(w.groups.begin() + group);
    if (!w.alive && (!w.open_wgmma.empty() || !w.wgmma_groups.empty()))
        fail("in-flight", "the warp ends before its wgmma is waited for");
    if (!block.alive) check_end(block);
    release_barriers(block);
    release_cluster(cluster);
}

// In every order of execution, a block has to end after accesses to its shared memory by others and by copies: one of its
// threads knows of them, or has waited for a phase of the cluster that ends after them.
void Machine::check_end(Block& block) {
    if (!launch.races) return;
    ThreadState last;
    for (const ThreadState& state : block.threads) last.known = join(last.known, state.known);
    if (!happened_before({block.number * stride + threads, block.engine_clock}, block.number * stride, last))
        fail("in-flight", "the block ends and has not waited for a copy into its shared memory");
    for (const auto& [visitor, visit] : block.visits)
        if (visit.phase > block.waited_phase && !happened_before({visitor, visit.clock}, block.number * stride, last))
            fail("race", print("the block may end before thread %u of block %u accesses its shared memory",
                               visitor % stride, visitor / stride));
}

void Machine::arrive_at_barrier(Warp& w, const Instruction& i, size_t group, u32 run) {
    const u64 number = read(w, i.operands.at(0), lane);
    if (number >= 16) fail("barrier", "barriers have numbers from 0 to 15");
    const u32 expected = i.operands.size() > 1 ? static_cast<u32>(read(w, i.operands[1], lane)) : 0;
    if (expected % LANES) fail("barrier", "the number of threads is not a multiple of the warp size");
    Barrier& barrier = w.block->barriers[number];
    if (barrier.arrived && barrier.expected != expected) fail("barrier", "threads expect different numbers of threads here");
    barrier.expected = expected;
    for (u32 left = run; left; left &= left - 1) {
        const u32 index = w.index * LANES + __builtin_ctz(left);
        barrier.threads.push_back(index);
        if (i.op == Op::Bar) barrier.waiters.push_back(index);
    }
    barrier.arrived += __builtin_popcount(run);
    const u32 others = w.groups[group].mask & ~run;
    advance(w, group);
    if (i.op == Op::Bar) {
        if (others) {
            Group rest = w.groups[group];
            rest.mask = others;
            w.groups.push_back(rest);
        }
        Group& g = w.groups[group];
        g.mask = run;
        g.barrier = static_cast<int>(number);
        g.generation = barrier.generation;
    }
    release_barriers(*w.block);
}

void Machine::release_barriers(Block& block) {
    for (Barrier& barrier : block.barriers) {
        if (!barrier.arrived) continue;
        const u32 needed = barrier.expected ? barrier.expected : block.alive;
        if (barrier.arrived < needed) continue;
        if (barrier.arrived > needed) fail("barrier", "more threads arrive at a barrier than it expects");
        if (launch.races) {
            const Clock joined = join_threads(block, barrier.threads);
            for (u32 index : barrier.waiters) block.threads[index].known = joined;
        }
        barrier.threads.clear();
        barrier.waiters.clear();
        barrier.arrived = 0;
        ++barrier.generation;
    }
}

void Machine::release_cluster(Cluster& cluster) {
    const u32 needed = threads * static_cast<u32>(cluster.blocks.size()) - cluster.exited;
    if (!cluster.arrived || cluster.arrived < needed) return;
    cluster.arrived = 0;
    ++cluster.phase;
    cluster.completed = cluster.arriving;
    cluster.arriving = nullptr;
}

}  // namespace ptx
