// The interface for ctypes: devices with memory, modules, launches. Functions return 0 or null after an error.
#include "machine.h"

using namespace ptx;

namespace {

struct Device {
    Memory memory;
    std::vector<std::unique_ptr<Module>> modules;
};

Error last_error("");
std::string last_text, last_executed;
std::vector<u64> last_tallies;

template <class Result, class Call> Result guarded(Result failed, Call call) {
    try {
        return call();
    } catch (const Error& error) {
        last_error = error;
    } catch (const std::exception& error) {
        last_error = Error(error.what(), "internal");
    }
    return failed;
}

const Kernel& find_kernel(const Module& module, const char* name) {
    auto found = module.kernels.find(name);
    if (found == module.kernels.end()) throw Error(print("no kernel %s", name), "launch");
    return found->second;
}

// Appends the counts of a grid and of those that it launched.
void keep_counts(const Machine& machine) {
    const auto& code = machine.kernel.code;
    for (size_t i = 0; i < code.size(); ++i)
        if (machine.executed[i])
            last_executed += print("%d %llu\n", code[i].line, static_cast<unsigned long long>(machine.executed[i]));
    for (size_t i = 0; i < machine.tallies.size(); ++i) {
        const Tally& t = machine.tallies[i];
        if (!t.issued) continue;
        last_tallies.insert(last_tallies.end(), {static_cast<u64>(code[i].line), t.issued, t.lanes, t.wavefronts,
                                                 t.conflicts, t.requests, t.sectors, t.used_bytes});
    }
    for (const Machine::Child& child : machine.children) keep_counts(*child.machine);
}

const char* keep(std::string text) {
    last_text = std::move(text);
    return last_text.c_str();
}

}  // namespace

extern "C" {

const char* ptx_error_message() { return last_error.what(); }
const char* ptx_error_kind() { return last_error.kind; }
int ptx_error_line() { return last_error.line; }
int ptx_error_block() { return last_error.block; }
int ptx_error_thread() { return last_error.thread; }

Device* ptx_create() { return new Device; }
void ptx_destroy(Device* device) { delete device; }

u64 ptx_allocate(Device* device, u8* data, u64 bytes, int read_only, int initialised) {
    return guarded<u64>(0, [&] { return device->memory.allocate(data, bytes, read_only, initialised); });
}

int ptx_release(Device* device, u64 address) {
    return guarded(0, [&] { device->memory.release(address); return 1; });
}

Module* ptx_load(Device* device, const char* text) {
    return guarded<Module*>(nullptr, [&] {
        device->modules.push_back(parse(text, device->memory));
        return device->modules.back().get();
    });
}

// Lines "name: offset bytes, offset bytes," of the kernels' parameters.
const char* ptx_kernels(const Module* module) {
    std::string text;
    for (const auto& [name, kernel] : module->kernels) {
        text += name + ":";
        for (const Parameter& parameter : kernel.parameters)
            text += print(" %llu %llu,", static_cast<unsigned long long>(parameter.offset), static_cast<unsigned long long>(parameter.bytes));
        text += "\n";
    }
    return keep(text);
}

const char* ptx_histogram(const Module* module) {
    std::string text;
    for (const auto& [name, count] : module->histogram) text += print("%s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
    return keep(text);
}

int ptx_launch(Device* device, const Module* module, const char* name, const Launch* launch, const u8* parameters, u64 bytes,
               Counts* counts) {
    return guarded(0, [&] {
        const Kernel& kernel = find_kernel(*module, name);
        if (bytes != kernel.parameter_bytes)
            throw Error(print("%llu bytes of parameters; the kernel has %llu", static_cast<unsigned long long>(bytes),
                              static_cast<unsigned long long>(kernel.parameter_bytes)), "launch");
        Machine machine(device->memory, kernel, *launch, parameters);
        *counts = machine.run();
        last_executed.clear();
        last_tallies.clear();
        keep_counts(machine);
        return 1;
    });
}

// Lines "line count" of the instructions that the last launch executed.
const char* ptx_executed() { return last_executed.c_str(); }

// Eight numbers for each instruction that the last launch issued: its line, and its `Tally`. Their number is in `count`.
const u64* ptx_tallies(u64* count) {
    *count = last_tallies.size();
    return last_tallies.data();
}

}  // extern "C"
