#include "clocks.h"

#include <algorithm>

namespace ptx {

u32 Knowledge::of(u32 block, u32 index) const {
    const std::vector<u32>* clocks = find(block);
    return clocks ? (*clocks)[index] : 0;
}

const std::vector<u32>* Knowledge::find(u32 block) const {
    for (const auto& [number, clocks] : blocks)
        if (number == block) return &clocks;
    return nullptr;
}

std::vector<u32>& Knowledge::clocks(u32 block, u32 threads) {
    auto place = std::lower_bound(blocks.begin(), blocks.end(), block,
                                  [](const auto& entry, u32 number) { return entry.first < number; });
    if (place == blocks.end() || place->first != block) place = blocks.emplace(place, block, std::vector<u32>(threads));
    return place->second;
}

Clock join(const Clock& a, const Clock& b) {
    if (a == b || !b) return a;
    if (!a) return b;
    std::shared_ptr<Knowledge> result;  // made when it differs from a
    for (const auto& [number, clocks] : b->blocks) {
        const std::vector<u32>* before = (result ? *result : *a).find(number);
        bool more = false;
        for (size_t i = 0; i < clocks.size() && !more; ++i) more = clocks[i] > (before ? (*before)[i] : 0);
        if (!more) continue;
        if (!result) result = std::make_shared<Knowledge>(*a);
        std::vector<u32>& known = result->clocks(number, static_cast<u32>(clocks.size()));
        for (size_t i = 0; i < clocks.size(); ++i) known[i] = std::max(known[i], clocks[i]);
    }
    if (result) return result;
    return a;
}

}  // namespace ptx
