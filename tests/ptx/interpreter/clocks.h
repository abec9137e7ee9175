// Vector clocks: which operations of other threads happened before a thread's present one.
#pragma once
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "memory.h"

namespace ptx {

// For each block, the clocks of its threads up to which their operations are known. A block that is not listed is
// unknown. Many threads share one object, which is never changed once it is shared.
struct Knowledge {
    std::vector<std::pair<u32, std::vector<u32>>> blocks;  // in ascending order

    u32 of(u32 block, u32 index) const;
    const std::vector<u32>* find(u32 block) const;  // null for an unknown block
    std::vector<u32>& clocks(u32 block, u32 threads);
};

using Clock = std::shared_ptr<const Knowledge>;

Clock join(const Clock&, const Clock&);

// Knowledge that strong accesses to one place publish: for each scope, by the number of the block, cluster or device.
using Scopes = std::array<std::map<u32, Clock>, 3>;

// A value that has been overwritten.
struct Version {
    u64 value;
    int bytes;
    Scopes by_scope;
    Event overwritten;
    std::map<u32, u32> readers;  // clocks at which threads first read it
};

struct Published {
    Scopes by_scope;
    std::map<u32, u32> readers;  // of the newest value
    std::vector<Version> older;  // in the order of writing; see versions.cpp
};

// What a thread knows and has published.
struct ThreadState {
    Clock known;
    u32 clock = 1;
    // By scope. Threads synchronise if both use a scope that includes the other.
    Clock fenced[3];     // knowledge at its last fence: what its relaxed atomics publish
    Clock observed[3];   // published knowledge that it read and that its next fence acquires
    // What fences of sequential consistency had published when `known` last changed, to known_before.
    Clock sequential, known_before;
    u32 proxy_clock = 0; // clock at its last fence.proxy.async
    Clock proxied;       // what it knew then
    u32 cluster_phase = 0;  // that ends when all threads of the cluster have arrived as this one last did
    bool at_cluster = false;  // whether it has arrived there and not waited
};

}  // namespace ptx
