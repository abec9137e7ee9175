// Modules, kernels, launches and graphs of the simulated driver. The PTX interpreter of tests/ptx executes the kernels.
//
// A module is PTX text. Comments "//registers NAME COUNT" in it give the registers per thread of its kernels, as the
// assembler allocates them. A launch that the interpreter finds a defect in makes this and all later calls fail, as the
// error of a kernel does on a GPU; the defect is printed on standard error.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <sstream>

#include "driver.h"
#include "machine.h"

using namespace ptx;

namespace {

struct Function {
    const Kernel* kernel;
    int registers = 0, dynamic_limit = DEFAULT_SHARED;
    int static_bytes() const { return static_cast<int>(kernel->shared_bytes); }
};

struct Loaded {
    std::unique_ptr<Module> module;
    std::map<std::string, Function> functions;
};

using Work = std::function<Result()>;

std::recursive_mutex one_at_a_time;
Memory memory;
Result broken = SUCCESS;  // by a kernel
std::map<Handle, std::vector<Work>> capturing;  // by stream
unsigned long long launched = 0;

// Runs the work, or records it on a stream that captures.
Result enqueue(Handle stream, Work work) {
    std::lock_guard lock(one_at_a_time);
    if (broken) return broken;
    auto capture = capturing.find(stream);
    if (capture != capturing.end()) {
        capture->second.push_back(std::move(work));
        return SUCCESS;
    }
    return capturing.empty() || stream ? work() : STREAM_CAPTURE_IMPLICIT;
}

Result load(Handle* module, const void* image) {
    std::lock_guard lock(one_at_a_time);
    const std::string text = static_cast<const char*>(image);
    if (text.find(".version") == std::string::npos) return INVALID_IMAGE;
    auto loaded = std::make_unique<Loaded>();
    try {
        loaded->module = parse(text, memory);
    } catch (const Error& error) {
        fprintf(stderr, "PTX line %d: %s\n", error.line, error.what());
        return INVALID_PTX;
    }
    for (const auto& [name, kernel] : loaded->module->kernels) loaded->functions[name] = {&kernel};
    std::istringstream lines(text);
    std::string word, name;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        int count = 0;
        if (words >> word >> name >> count && word == "//registers" && loaded->functions.count(name))
            loaded->functions[name].registers = count;
    }
    *module = loaded.release();
    return SUCCESS;
}

Result find(Handle* function, Handle module, const char* name) {
    auto& functions = static_cast<Loaded*>(module)->functions;
    auto found = functions.find(name);
    if (found == functions.end()) return NOT_FOUND;
    *function = &found->second;
    return SUCCESS;
}

int blocks_by_registers(int registers, int threads) {
    if (!registers) return 1 << 20;
    // Registers are allocated to warps in units of 256, in four equal parts of the register file.
    const int warps = (threads + 31) / 32, per_warp = (registers * 32 + 255) / 256 * 256;
    return REGISTERS / 4 / per_warp * 4 / warps;
}

Result run(const Function& function, const Launch& launch, const std::vector<u8>& parameters) {
    if (const char* log = getenv("REHEARSAL_LAUNCHES")) {
        if (FILE* file = fopen(log, "a")) {
            fprintf(file, "launch %s grid %u %u %u block %u %u %u\n", function.kernel->name.c_str(), launch.grid[0],
                    launch.grid[1], launch.grid[2], launch.block[0], launch.block[1], launch.block[2]);
            fclose(file);
        }
    }
    try {
        Machine(memory, *function.kernel, launch, parameters.data()).run();
        return SUCCESS;
    } catch (const Error& error) {
        fprintf(stderr, "PTX interpreter: %s in %s, line %d, block %d, thread %d: %s\n", error.kind,
                function.kernel->name.c_str(), error.line, error.block, error.thread, error.what());
        const bool address = !strcmp(error.kind, "bounds");
        return broken = address ? ILLEGAL_ADDRESS : LAUNCH_FAILED;
    }
}

}  // namespace

extern "C" {

void map_memory(Pointer address, size_t bytes) {
    std::lock_guard lock(one_at_a_time);
    memory.map(reinterpret_cast<u8*>(address), bytes);
}
Result unmap_memory(Pointer address) {
    std::lock_guard lock(one_at_a_time);
    return memory.unmap(address) ? SUCCESS : INVALID_VALUE;
}
Result waiting(void) {
    std::lock_guard lock(one_at_a_time);
    return broken ? broken : capturing.empty() ? SUCCESS : STREAM_CAPTURE_UNSUPPORTED;
}
Result copy_on_stream(Pointer to, Pointer from, size_t size, Handle stream) {
    return enqueue(stream, [=] { memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size); return SUCCESS; });
}
Result fill_on_stream(Pointer to, unsigned char value, size_t size, Handle stream) {
    return enqueue(stream, [=] { memset(reinterpret_cast<void*>(to), value, size); return SUCCESS; });
}

// --- modules and kernels; a library is a module, a kernel a function ---

Result cuModuleLoadData(Handle* module, const void* image) { return load(module, image); }
Result cuModuleLoadDataEx(Handle* module, const void* image, unsigned, void*, void*) { return load(module, image); }
Result cuModuleUnload(Handle) { return SUCCESS; }
Result cuLibraryLoadData(Handle* library, const void* image, void*, void*, unsigned, void*, void*, unsigned) {
    return load(library, image);
}
Result cuLibraryUnload(Handle) { return SUCCESS; }
Result cuLibraryGetModule(Handle* module, Handle library) { *module = library; return SUCCESS; }
Result cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) { return find(kernel, library, name); }
Result cuModuleGetFunction(Handle* function, Handle module, const char* name) { return find(function, module, name); }
Result cuModuleGetGlobal_v2(Pointer*, size_t*, Handle, const char*) { return NOT_FOUND; }
Result cuKernelGetFunction(Handle* function, Handle kernel) { *function = kernel; return SUCCESS; }
Result cuFuncGetName(const char** name, Handle function) {
    *name = static_cast<Function*>(function)->kernel->name.c_str();
    return SUCCESS;
}

Result cuFuncSetAttribute(Handle function, int attribute, int value) {
    Function& f = *static_cast<Function*>(function);
    if (attribute == DYNAMIC_SHARED) {
        if (value < 0 || value > SHARED_BYTES - f.static_bytes()) return INVALID_VALUE;
        f.dynamic_limit = value;
    }
    return SUCCESS;
}
Result cuKernelSetAttribute(int attribute, int value, Handle kernel, int) { return cuFuncSetAttribute(kernel, attribute, value); }
Result cuFuncGetAttribute(int* value, int attribute, Handle function) {
    const Function& f = *static_cast<Function*>(function);
    const int most = f.kernel->max_threads ? static_cast<int>(f.kernel->max_threads) : MAX_THREADS;
    *value = attribute == MOST_THREADS     ? most
             : attribute == STATIC_SHARED  ? f.static_bytes()
             : attribute == LOCAL_BYTES    ? static_cast<int>(f.kernel->local_bytes)
             : attribute == REGISTER_COUNT ? f.registers
             : attribute == DYNAMIC_SHARED ? f.dynamic_limit
                                           : 0;
    return SUCCESS;
}
Result cuKernelGetAttribute(int* value, int attribute, Handle kernel, int) { return cuFuncGetAttribute(value, attribute, kernel); }

Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Handle function, int threads, size_t dynamic_bytes) {
    const Function& f = *static_cast<Function*>(function);
    if (threads < 1 || threads > MAX_THREADS) return INVALID_VALUE;
    const int shared = RESERVED_SHARED + f.static_bytes() + static_cast<int>(dynamic_bytes);
    *blocks = std::min<int>({THREADS_PER_MULTIPROCESSOR / ((threads + 31) / 32 * 32), BLOCKS_PER_MULTIPROCESSOR,
                        SHARED_PER_MULTIPROCESSOR / shared, blocks_by_registers(f.registers, threads)});
    return SUCCESS;
}

Result cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, Handle stream, void** arguments, void**) {
    const Function& f = *static_cast<Function*>(function);
    const Kernel& kernel = *f.kernel;
    const u64 threads = u64(bx) * by * bz;
    if (!gx || !gy || !gz || !threads || threads > MAX_THREADS || (kernel.max_threads && threads > kernel.max_threads))
        return INVALID_VALUE;
    if (static_cast<int>(shared) > f.dynamic_limit || gx % kernel.cluster) return INVALID_VALUE;
    if (f.dynamic_limit <= DEFAULT_SHARED && f.static_bytes() + static_cast<int>(shared) > DEFAULT_SHARED)
        return INVALID_VALUE;
    if (!blocks_by_registers(f.registers, static_cast<int>(threads))) return OUT_OF_RESOURCES;
    std::vector<u8> parameters(kernel.parameter_bytes);
    for (size_t i = 0; i < kernel.parameters.size(); ++i)
        memcpy(&parameters[kernel.parameters[i].offset], arguments[i], kernel.parameters[i].bytes);
    constexpr u32 RESIDENT = 4;
    constexpr u64 LIMIT = 400'000'000;
    std::lock_guard lock(one_at_a_time);
    const Launch launch = {{gx, gy, gz}, {bx, by, bz}, shared, ++launched, RESIDENT, LIMIT, !getenv("REHEARSAL_RACES_IGNORED")};
    return enqueue(stream, [&f, launch, parameters] { return run(f, launch, parameters); });
}
struct LaunchConfig {  // first fields of CUlaunchConfig
    unsigned gx, gy, gz, bx, by, bz, shared;
    Handle stream;
};
Result cuLaunchKernelEx(const LaunchConfig* c, Handle function, void** arguments, void** extra) {
    return cuLaunchKernel(function, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->stream, arguments, extra);
}

// --- graphs: what is recorded of a stream ---

Result cuStreamBeginCapture_v2(Handle stream, int) {
    std::lock_guard lock(one_at_a_time);
    if (!stream) return STREAM_CAPTURE_UNSUPPORTED;
    capturing[stream].clear();
    return SUCCESS;
}
Result cuStreamEndCapture(Handle stream, Handle* graph) {
    std::lock_guard lock(one_at_a_time);
    auto capture = capturing.find(stream);
    if (capture == capturing.end()) return INVALID_VALUE;
    *graph = new std::vector<Work>(std::move(capture->second));
    capturing.erase(capture);
    return SUCCESS;
}
Result cuGraphInstantiateWithFlags(Handle* instance, Handle graph, unsigned long long) { *instance = graph; return SUCCESS; }
Result cuGraphLaunch(Handle instance, Handle stream) {
    for (const Work& work : *static_cast<std::vector<Work>*>(instance))
        if (Result result = enqueue(stream, work)) return result;
    return SUCCESS;
}

Result cuTensorMapEncodeTiled(void* map, int type, unsigned rank, Pointer address, const uint64_t* sizes,
                              const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave, int swizzle,
                              int, int) {
    static const u8 ELEMENT_BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};  // CUtensorMapDataType
    static const u8 SWIZZLES[] = {0, 32, 64, 128};
    if (reinterpret_cast<uintptr_t>(map) % 64 || address % 16 || rank < 1 || rank > 5) return INVALID_VALUE;
    if (type < 0 || type > 9 || interleave || swizzle < 0 || swizzle > 3) return INVALID_VALUE;
    TensorMap encoded = {TensorMap::MAGIC, static_cast<u8>(rank), ELEMENT_BYTES[type], SWIZZLES[swizzle], 0, address, {}, {}, {}};
    for (unsigned i = 0; i < rank; ++i) {
        if (!sizes[i] || sizes[i] > (1ull << 32) || !box[i] || box[i] > 256 || steps[i] != 1) return INVALID_VALUE;
        if (i && (strides[i - 1] % 16 || strides[i - 1] >= (1ull << 40))) return INVALID_VALUE;
        encoded.sizes[i] = static_cast<u32>(sizes[i]), encoded.box[i] = box[i];
        if (i) encoded.strides[i - 1] = strides[i - 1];
    }
    const u32 row = box[0] * encoded.element_bytes;
    if (row % 16 || (encoded.swizzle_bytes && row > encoded.swizzle_bytes)) return INVALID_VALUE;
    memset(map, 0, 128);
    memcpy(map, &encoded, sizeof encoded);
    return SUCCESS;
}

}  // extern "C"
