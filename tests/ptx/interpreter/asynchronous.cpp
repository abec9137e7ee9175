// Asynchronous copies, barriers in shared memory, clusters (sections "Asynchronous copy" and "mbarrier"). A cp.async
// completes when it is waited for; a bulk copy completes at a random later time, a store at the latest when waited for.
#include <algorithm>

#include "machine.h"

namespace ptx {

bool Machine::execute_asynchronous(Warp& w, const Instruction& i, Group& group, u32 run) {
    const auto& operands = i.operands;
    Block& block = *w.block;
    Cluster& cluster = *block.cluster;
    if (i.op == Op::MbarrierTry) {
        Row done = {};
        bool any = false;
        for (u32 left = run; left; left &= left - 1) {
            lane = __builtin_ctz(left);
            const u64 parity = read(w, operands.at(2), lane);
            if (parity > 1) fail("barrier", "a parity other than 0 and 1");
            Mbarrier& barrier = find_mbarrier(block, static_cast<u32>(address_of(w, operands.at(1), lane)));
            done[lane] = (barrier.phase & 1) != parity;
            any |= done[lane];
            if (done[lane] && launch.races) acquire(state_of(w, lane), barrier.completed);
        }
        if (!any) {  // the instruction may return without success, too: once for each wait
            if (group.timed_out || random() % 8) return false;
        }
        for (u32 left = run; left; left &= left - 1) write(w, operands.at(0), __builtin_ctz(left), done[__builtin_ctz(left)]);
        group.timed_out = !any;
        return true;
    }
    if (i.op == Op::ClusterWait) {
        for (u32 left = run; left; left &= left - 1) {
            lane = __builtin_ctz(left);
            if (!state_of(w, lane).at_cluster) fail("barrier", "a thread waits for its cluster and has not arrived");
            if (state_of(w, lane).cluster_phase > cluster.phase) return false;
        }
        for (u32 left = run; left; left &= left - 1) state_of(w, __builtin_ctz(left)).at_cluster = false;
        block.waited_phase = cluster.phase;
        if (i.has(ACQUIRES) && launch.races)
            for (u32 left = run; left; left &= left - 1) acquire(state_of(w, __builtin_ctz(left)), cluster.completed);
        return true;
    }
    if (i.op == Op::ClusterArrive) {
        std::vector<u32> indices;
        for (u32 left = run; left; left &= left - 1) {
            lane = __builtin_ctz(left);
            ThreadState& state = state_of(w, lane);
            if (state.at_cluster) fail("barrier", "a thread arrives twice at the barrier of its cluster");
            state.at_cluster = true;
            state.cluster_phase = cluster.phase + 1;
            indices.push_back(w.index * LANES + lane);
        }
        cluster.arrived += static_cast<u32>(indices.size());
        if (i.has(RELEASES) && launch.races) cluster.arriving = join(cluster.arriving, join_threads(block, indices));
        release_cluster(cluster);
        return true;
    }
    if (i.op == Op::TmaLoad || i.op == Op::TmaStore) {
        issue_bulk(w, i, run);
        return true;
    }
    for (u32 left = run; left; left &= left - 1) {
        lane = __builtin_ctz(left);
        const u32 index = w.index * LANES + lane;
        ThreadState& state = block.threads[index];
        LaneCopies& copies = w.copies[lane];
        switch (i.op) {
            case Op::CpAsync: {
                const u32 to = static_cast<u32>(address_of(w, operands.at(0), lane));
                const u64 from = address_of(w, operands.at(1), lane);
                const int bytes = static_cast<int>(read(w, operands.at(2), lane));
                if (bytes != 4 && bytes != 8 && bytes != 16) fail("syntax", "cp.async copies 4, 8 or 16 bytes");
                const u64 source = operands.size() > 3 ? read(w, operands[3], lane) : bytes;
                if (source > static_cast<u64>(bytes)) fail("bounds", "cp.async reads more than it copies");
                if (from % bytes) fail("misaligned", "the source of cp.async");
                if (source) access_global(from, static_cast<int>(source), Access::Load, 0, thread_of(w, lane), state);
                access(w, Space::Shared, to, bytes, Access::Store, 0);
                std::fill_n(block.state.begin() + to, bytes, Block::InFlight);
                copies.open.push_back({to, from, bytes, static_cast<int>(source)});
                break;
            }
            case Op::CpCommit:
                copies.groups.push_back(std::move(copies.open));
                copies.open.clear();
                break;
            case Op::CpWait:
                if (operands.empty()) {  // wait_all commits, too
                    copies.groups.push_back(std::move(copies.open));
                    copies.open.clear();
                }
                finish_copies(w, lane, operands.empty() ? 0 : read(w, operands[0], lane));
                break;
            case Op::MbarrierInit: {
                const u32 address = static_cast<u32>(address_of(w, operands.at(0), lane));
                access(w, Space::Shared, address, 8, Access::Store, 0);
                Mbarrier barrier;
                barrier.expected = barrier.pending = static_cast<u32>(read(w, operands.at(1), lane));
                if (!barrier.expected || barrier.expected >= 1u << 20) fail("barrier", "the count of an mbarrier");
                barrier.initialised = {thread_of(w, lane), state.clock};
                block.mbarriers[address] = barrier;
                break;
            }
            case Op::MbarrierInval: {
                const u32 address = static_cast<u32>(address_of(w, operands.at(0), lane));
                find_mbarrier(block, address);
                block.mbarriers.erase(address);
                break;
            }
            case Op::MbarrierExpect:
                find_mbarrier(block, static_cast<u32>(address_of(w, operands.at(0), lane))).transactions +=
                    static_cast<s64>(read(w, operands.at(1), lane));
                break;
            case Op::MbarrierArrive: {
                Mbarrier& barrier = find_mbarrier(block, static_cast<u32>(address_of(w, operands.at(1), lane)));
                u32 count = 1;
                if (i.has(EXPECT_TX)) barrier.transactions += static_cast<s64>(read(w, operands.at(2), lane));
                else if (operands.size() > 2) count = static_cast<u32>(read(w, operands[2], lane));
                if (count > barrier.pending) fail("barrier", "more threads arrive at an mbarrier than it expects");
                barrier.pending -= count;
                if (launch.races) barrier.arriving = join(barrier.arriving, snapshot(block, index));
                write(w, operands[0], lane, barrier.phase);
                complete_phase(barrier);
                break;
            }
            case Op::BulkCommit: {
                Stores& issued = stores[{block.number, index}];
                ++issued.committed;
                issued.open = false;
                break;
            }
            case Op::BulkWait: finish_stores(block, index, read(w, operands.at(0), lane)); break;
            case Op::Mapa: {
                const u64 rank = read(w, operands.at(2), lane);
                if (rank >= cluster.blocks.size()) fail("bounds", "a rank beyond the cluster");
                write(w, operands[0], lane, (read(w, operands[1], lane) & 0xffffff) | (rank + 1) << 24);
                break;
            }
            default: fail("unsupported", "unknown asynchronous instruction");
        }
    }
    return true;
}

void Machine::finish_copies(Warp& w, int l, size_t left) {
    LaneCopies& copies = w.copies[l];
    lane = l;
    auto finish = [&](const std::vector<SmallCopy>& group) {
        for (const SmallCopy& copy : group) {
            Block& block = *w.block;
            std::fill_n(block.state.begin() + copy.to, copy.bytes, Block::Written);
            u8* to = access(w, Space::Shared, copy.to, copy.bytes, Access::Store, 0).data;
            memset(to, 0, copy.bytes);
            if (!copy.source_bytes) continue;
            memcpy(to, access_global(copy.from, copy.source_bytes, Access::Load, 0, thread_of(w, l), state_of(w, l)),
                   copy.source_bytes);
        }
    };
    while (copies.groups.size() > left) {
        finish(copies.groups.front());
        copies.groups.pop_front();
    }
}

Mbarrier& Machine::find_mbarrier(Block& block, u32 address, Block** found_owner) {
    u32 offset;
    Block& owner = shared_owner(block, address, offset);
    auto found = owner.mbarriers.find(offset);
    if (found == owner.mbarriers.end()) fail("barrier", print("there is no mbarrier at byte %u of shared memory", offset));
    if (launch.races && !happened_before(found->second.initialised, thread_of(*warp, lane), state_of(*warp, lane)))
        fail("race", "the mbarrier is used without synchronisation with its initialisation");
    if (found_owner) *found_owner = &owner;
    return found->second;
}

void Machine::complete_phase(Mbarrier& barrier) {
    if (barrier.pending || barrier.transactions) return;
    ++barrier.phase;
    barrier.pending = barrier.expected;
    barrier.completed = barrier.arriving;
    barrier.arriving = nullptr;
}

// Reads shared memory through the asynchronous proxy: what threads wrote needs a proxy fence, by its writer or by the
// reader after they have synchronised.
u8* Machine::read_asynchronously(Block& block, u32 address, int bytes, u32 thread, const ThreadState& state) {
    u8* data = access_shared(block, address, bytes, Access::Load, 0, thread, state);
    if (!launch.races) return data;
    for (u32 at = address / kernel.least_granule; at <= (address + bytes - 1) / kernel.least_granule; ++at) {
        const Event& write = block.cells[at].write;
        const u32 index = write.thread % stride;
        if (!write.clock || index >= threads || write.thread / stride != block.number) continue;
        if (write.clock > block.threads[index].proxy_clock &&
            !(state.proxied && state.proxied->of(block.number, index) >= write.clock))
            fail("proxy", print("byte %u of shared memory was written by thread %u without a fence.proxy.async",
                                at * kernel.least_granule, index));
    }
    return data;
}

namespace {

u32 box_bytes(const TensorMap& map) {
    u32 bytes = map.element_bytes;
    for (int d = 0; d < map.rank; ++d) bytes *= map.box[d];
    return bytes;
}

// Calls visit(offset within the box in shared memory, address in global memory or 0 outside) for each element.
template <class Visit> void walk_box(const BulkCopy& copy, Visit visit) {
    const TensorMap& map = copy.map;
    const u32 elements = box_bytes(map) / map.element_bytes;
    for (u32 element = 0; element < elements; ++element) {
        u32 rest = element;
        u64 address = map.address;
        bool inside = true;
        for (int d = 0; d < map.rank; ++d) {
            const s64 at = static_cast<s64>(copy.start[d]) + rest % map.box[d];
            rest /= map.box[d];
            inside &= at >= 0 && at < static_cast<s64>(map.sizes[d]);
            if (inside) address += static_cast<u64>(at) * (d ? map.strides[d - 1] : map.element_bytes);
        }
        u32 to = copy.shared + element * map.element_bytes;
        if (map.swizzle_bytes) to ^= (to >> 7 & 7) << 4;
        visit(to, inside ? address : 0);
    }
}

}  // namespace

void Machine::issue_bulk(Warp& w, const Instruction& i, u32 run) {
    const auto& operands = i.operands;
    const bool store = i.op == Op::TmaStore;
    for (u32 left = run; left; left &= left - 1) {
        lane = __builtin_ctz(left);
        const Operand& tensor = operands.at(store ? 0 : 1);
        BulkCopy copy = {};
        copy.store = store;
        copy.instruction = &i;
        const u64 map_address = address_of(w, tensor, lane);
        memcpy(&copy.map, access(w, Space::Generic, map_address, 64, Access::Load, 0).data, 64);
        memcpy(reinterpret_cast<u8*>(&copy.map) + 64, access(w, Space::Generic, map_address + 64, 64, Access::Load, 0).data,
               sizeof copy.map - 64);
        if (copy.map.magic != TensorMap::MAGIC || copy.map.rank != i.vector) fail("bounds", "not a tensor map of this rank");
        for (int d = 0; d < copy.map.rank; ++d)
            copy.start[d] = static_cast<s32>(read(w, tensor.parts.at(0).parts.at(d), lane));
        copy.shared = static_cast<u32>(address_of(w, operands.at(store ? 1 : 0), lane));
        if (copy.shared % 128) fail("misaligned", "the box in shared memory");
        if (copy.map.swizzle_bytes && copy.map.swizzle_bytes != 128) fail("unsupported", "only the 128-byte swizzle is executed");
        const u32 bytes = box_bytes(copy.map), index = w.index * LANES + lane;
        Block& issuer = *w.block;
        if (store) {
            copy.block = &issuer;
            copy.owner = index;
            Stores& issued = stores[{issuer.number, index}];
            issued.open = true;
            copy.group = issued.committed;
            read_asynchronously(issuer, copy.shared, static_cast<int>(bytes), thread_of(w, lane), state_of(w, lane));
            std::fill_n(issuer.state.begin() + copy.shared, bytes, Block::BeingStored);
            issuer.stored_boxes.push_back({index, copy.group, copy.shared, bytes});
            bulk_copies.push_back(copy);
            continue;
        }
        copy.engine.known = snapshot(issuer, index);
        copy.mbarrier = static_cast<u32>(address_of(w, operands.at(2), lane));
        const u64 ranks = i.has(MULTICAST) ? read(w, operands.at(3), lane) : u64(1) << issuer.rank;
        if (!ranks || ranks >> issuer.cluster->blocks.size()) fail("bounds", "a multicast beyond the cluster");
        for (Block* target : issuer.cluster->blocks) {
            if (!(ranks >> target->rank & 1)) continue;
            if (!target->alive) fail("bounds", "a multicast to a block that has ended");
            find_mbarrier(*target, copy.mbarrier);
            copy.block = target;
            copy.engine.clock = ++target->engine_clock;
            access_shared(*target, copy.shared, static_cast<int>(bytes), Access::Store, 0,
                          target->number * stride + threads, copy.engine);
            std::fill_n(target->state.begin() + copy.shared, bytes, Block::InFlight);
            bulk_copies.push_back(copy);
        }
    }
}

void Machine::run_bulk(size_t index) {
    const BulkCopy copy = std::move(bulk_copies[index]);
    bulk_copies.erase(bulk_copies.begin() + index);
    Block& block = *copy.block;
    const u32 engine = block.number * stride + threads;
    const Instruction* interrupted = current;
    current = copy.instruction;
    warp = &block.warps[copy.owner / LANES];
    lane = static_cast<int>(copy.owner % LANES);
    const u32 bytes = box_bytes(copy.map);
    if (copy.store) {
        // Its accesses count as its owner's.
        const u32 thread = block.number * stride + copy.owner;
        const ThreadState& state = block.threads[copy.owner];
        read_asynchronously(block, copy.shared, static_cast<int>(bytes), thread, state);
        walk_box(copy, [&](u32 from, u64 to) {
            if (to)
                memcpy(access_global(to, copy.map.element_bytes, Access::Store, 0, thread, state), &block.shared[from],
                       copy.map.element_bytes);
        });
    } else {
        walk_box(copy, [&](u32 to, u64 from) {
            if (from)
                memcpy(&block.shared[to], access_global(from, copy.map.element_bytes, Access::Load, 0, engine, copy.engine),
                       copy.map.element_bytes);
            else memset(&block.shared[to], 0, copy.map.element_bytes);
        });
        std::fill_n(block.state.begin() + copy.shared, bytes, Block::Written);
        Mbarrier& barrier = block.mbarriers.at(copy.mbarrier);
        barrier.transactions -= bytes;
        if (launch.races) {
            auto knowledge = std::make_shared<Knowledge>(*copy.engine.known);
            u32& clock = knowledge->clocks(block.number, stride)[threads];
            clock = std::max(clock, copy.engine.clock);
            barrier.arriving = join(barrier.arriving, knowledge);
        }
        complete_phase(barrier);
    }
    current = interrupted;
}

void Machine::finish_stores(Block& block, u32 thread, size_t left) {
    Stores& issued = stores[{block.number, thread}];
    issued.waited = std::max(issued.waited, issued.committed - std::min<u64>(left, issued.committed));
    Warp* waiting = warp;
    const int waiting_lane = lane;
    for (size_t k = 0; k < bulk_copies.size();) {
        const BulkCopy& copy = bulk_copies[k];
        if (!copy.store || copy.block != &block || copy.owner != thread || copy.group >= issued.waited) ++k;
        else run_bulk(k);
    }
    warp = waiting;
    lane = waiting_lane;
    // The boxes are free again for whoever is synchronised with this thread from here on.
    for (size_t k = 0; k < block.stored_boxes.size();) {
        const Block::StoredBox box = block.stored_boxes[k];
        if (box.owner != thread || box.group >= issued.waited) {
            ++k;
            continue;
        }
        block.stored_boxes.erase(block.stored_boxes.begin() + k);
        std::fill_n(block.state.begin() + box.offset, box.bytes, Block::Written);
        access_shared(block, box.offset, static_cast<int>(box.bytes), Access::Load, 0, block.number * stride + thread,
                      block.threads[thread]);
    }
}

}  // namespace ptx
