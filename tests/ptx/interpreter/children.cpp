// Grids that kernels launch (CUDA C++ Programming Guide, "CUDA Dynamic Parallelism", version 2): a thread takes a buffer,
// writes the parameters into it, and launches. Children run one after the other when all threads of the launching grid
// have ended, in any order that their streams allow; races between a grid and its children, and between children, are
// not looked for.
#include "machine.h"

namespace ptx {

constexpr size_t PENDING_LAUNCHES = 2048;     // default of cudaLimitDevRuntimePendingLaunchCount
constexpr u64 BUFFER_BYTES = 4096;            // most bytes of parameters
constexpr u64 DEFAULT_STREAM = 0, FIRE_AND_FORGET = 4;

u64 Machine::read_argument(Warp& w, const Operand& operand, int bytes, u64 offset) {
    u64 value = 0;
    memcpy(&value, access(w, Space::Local, read(w, operand, lane) + offset, bytes, Access::Load, 0).data, bytes);
    return value;
}

void Machine::execute_runtime(Warp& w, const Instruction& i, u32 run) {
    for (u32 left = run; left; left &= left - 1) {
        lane = __builtin_ctz(left);
        u64 result = 0;  // cudaSuccess: launches that fail are errors of the interpreter
        if (i.op == Op::GetParameterBuffer) result = get_parameter_buffer(w, i);
        if (i.op == Op::LaunchDevice) launch_child(w, i);
        const int bytes = i.op == Op::GetParameterBuffer ? 8 : 4;
        memcpy(access(w, Space::Local, read(w, i.operands.at(0), lane), bytes, Access::Store, 0).data, &result, bytes);
    }
}

// Operands: result, kernel, grid and block (three extents each), bytes of dynamic shared memory.
u64 Machine::get_parameter_buffer(Warp& w, const Instruction& i) {
    const Kernel* child = kernel.module->find(read_argument(w, i.operands.at(1), 8));
    if (!child) fail("launch", "what is launched is not a kernel of this text");
    ParameterBuffer buffer = {child, thread_of(w, lane), launch, {}, {}, false};
    for (u64 d = 0; d < 3; ++d) {
        buffer.launch.grid[d] = static_cast<u32>(read_argument(w, i.operands.at(2), 4, 4 * d));
        buffer.launch.block[d] = static_cast<u32>(read_argument(w, i.operands.at(3), 4, 4 * d));
    }
    buffer.launch.dynamic_bytes = static_cast<u32>(read_argument(w, i.operands.at(4), 4));
    buffer.launch.seed = random();
    buffer.data.resize(child->parameter_bytes);
    buffer.written.resize(child->parameter_bytes);
    parameter_buffers.push_back(std::move(buffer));
    return LAUNCH_WINDOW + (parameter_buffers.size() - 1) * BUFFER_BYTES;
}

u8* Machine::access_launch_parameters(u64 address, int bytes, Access kind, u32 thread) {
    const u64 number = (address - LAUNCH_WINDOW) / BUFFER_BYTES, offset = address % BUFFER_BYTES;
    if (number >= parameter_buffers.size() || offset + bytes > parameter_buffers[number].data.size())
        fail("bounds", print("%d bytes at byte %llu of the parameters of a launch", bytes, static_cast<unsigned long long>(offset)));
    ParameterBuffer& buffer = parameter_buffers[number];
    if (kind != Access::Store || buffer.owner != thread || buffer.launched)
        fail("launch", "the parameters of a launch are only written, by the thread that launches, and before");
    for (int k = 0; k < bytes; ++k) buffer.written[offset + k] = true;
    return &buffer.data[offset];
}

// Operands: result, buffer, stream.
void Machine::launch_child(Warp& w, const Instruction& i) {
    const u64 address = read_argument(w, i.operands.at(1), 8), stream = read_argument(w, i.operands.at(2), 8);
    const u64 number = (address - LAUNCH_WINDOW) / BUFFER_BYTES;
    if (address % BUFFER_BYTES || number >= parameter_buffers.size()) fail("launch", "not a buffer of parameters");
    ParameterBuffer& buffer = parameter_buffers[number];
    if (buffer.launched) fail("launch", "the buffer of parameters was launched before");
    for (const Parameter& parameter : buffer.kernel->parameters)
        for (u64 k = 0; k < parameter.bytes; ++k)
            if (!buffer.written[parameter.offset + k])
                fail("uninitialised", print("parameter %s of the launch is not written", parameter.name.c_str()));
    if (stream != DEFAULT_STREAM && stream != FIRE_AND_FORGET)
        fail("unsupported", "launches into other streams than the default and cudaStreamFireAndForget");
    if (children.size() == PENDING_LAUNCHES)
        fail("launch", print("more than %zu launches are pending, the default limit", PENDING_LAUNCHES));
    buffer.launched = true;
    children.push_back({std::make_unique<Machine>(memory, *buffer.kernel, buffer.launch, buffer.data.data()),
                        w.block->number, stream == DEFAULT_STREAM});
}

void Machine::run_children() {
    std::vector<Child*> waiting;
    for (Child& child : children) waiting.push_back(&child);
    while (!waiting.empty()) {
        size_t next = random() % waiting.size();
        for (size_t earlier = 0; waiting[next]->ordered && earlier < next; ++earlier)
            if (waiting[earlier]->ordered && waiting[earlier]->block == waiting[next]->block) next = earlier;
        Machine& machine = *waiting[next]->machine;
        waiting.erase(waiting.begin() + next);
        machine.steps = steps;
        machine.lane_steps = lane_steps;
        machine.touched.swap(touched);
        const Counts counts = machine.run();
        steps = counts.warp_instructions;
        lane_steps = counts.lane_instructions;
        machine.touched.swap(touched);
    }
}

}  // namespace ptx
