// PTX text decoded into instructions whose operands are rows of 32 lanes.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory.h"
#include "numbers.h"

namespace ptx {

enum class Op : u8 {
    // scalar
    Mov, Add, Sub, Mul, Mad, Fma, Div, Rem, Min, Max, Neg, Abs, And, Or, Xor, Not, Shl, Shr, Shf, Setp, Selp, Cvt,
    Cvta, Popc, Clz, Brev, Bfind, Bfe, Bfi, Prmt, Lop3, Dp2a, Dp4a, Sad, Ex2, Lg2, Rcp, Sqrt, Rsqrt, Sin, Cos, Tanh,
    Copysign, Testp, Isspacep,
    // memory
    Ld, St, Atom, Red, Fence, Prefetch,
    // control
    Bra, Ret, Trap, Nanosleep, Bar, BarArrive,
    // calls of the device runtime; Call is any call until its function is known
    Call, GetParameterBuffer, LaunchDevice, GetLastError,
    // warp
    WarpSync, Shfl, Vote, Activemask, Redux, Match, Elect,
    // tensor cores
    Ldmatrix, Stmatrix, Mma, WgmmaFence, WgmmaCommit, WgmmaWait, Wgmma, Setmaxnreg,
    // asynchronous copies, barriers in memory, clusters
    CpAsync, CpCommit, CpWait, MbarrierInit, MbarrierInval, MbarrierArrive, MbarrierExpect, MbarrierTry, TmaLoad,
    TmaStore, BulkCommit, BulkWait, Mapa, ClusterArrive, ClusterWait
};

enum class Compare : u8 { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
enum class Action : u8 {
    None, Add, Min, Max, And, Or, Xor, Exch, Cas, Inc, Dec, Up, Down, Bfly, Idx, Any, All, Uni, Ballot, L, R,
    Finite, Infinite, Number, NotANumber, Normal, Subnormal, F4e, B4e, Rc8, Ecl, Ecr, Rc16
};

// Modifiers that are on or off.
enum Flag : u32 {
    FTZ = 1, SAT = 2, WIDE = 4, HIGH = 8, TO = 16, WRAP = 32, SHIFTAMT = 64, NAN_RESULT = 128, TRANS = 256,
    PROXY_ASYNC = 512, EXPECT_TX = 1024, MULTICAST = 2048, ALIGNED = 4096, READS_CLOCK = 8192, INTEGER_ROUND = 16384,
    TEST_ONLY = 32768, READ_ONLY_WAIT = 65536, UNIFORM = 1 << 17, NO_COMPLETE = 1 << 18, CLUSTER_SCOPE = 1 << 19,
    SECOND_LOW = 1 << 20, SECOND_SIGNED = 1 << 21, ACQUIRES = 1 << 22, RELEASES = 1 << 23, STRONG = 1 << 24, SEQUENTIAL = 1 << 25,
    NON_COHERENT = 1 << 26
};

// Sets of threads, each within the next: a block, a cluster, the device (or more).
enum class Scope : u8 { Cta, Cluster, Gpu };

struct Operand {
    enum Kind : u8 { Sink, Row, Vector, Address };
    Kind kind = Sink;
    bool constant = false;  // the row is one of Kernel::constants, else a register
    bool negated = false;   // !p
    int row = -1;           // of an address: its base, or -1
    s64 offset = 0;         // of an address
    std::vector<Operand> parts;  // elements of a vector; the second result of `d|p`; a tensor's coordinates
};

struct Instruction {
    Op op = Op::Trap;
    Type type = Type::None, source = Type::None;  // for mma: of A and B, of C and D
    Space space = Space::Generic;
    Scope scope = Scope::Gpu;  // of a fence or a strong access
    Compare compare = Compare::Eq;
    Action action = Action::None;  // of atomics, shuffles, votes, and the boolean of setp
    Rounding rounding = Rounding::Default;
    u8 vector = 1;
    bool guard_negated = false;
    int guard = -1;
    int target = -1;
    int bytes = 0;  // of a memory access per element
    u32 flags = 0;
    std::array<int, 3> shape = {};  // m, n, k
    int line = 0;
    std::vector<Operand> operands;
    std::string text;

    bool has(u32 flag) const { return flags & flag; }
    // Of an access: 0 for a weak one, else 1 + its scope.
    u8 strength() const { return has(STRONG) ? static_cast<u8>(1 + static_cast<int>(scope)) : 0; }
};

using Row = std::array<u64, LANES>;

enum class Special : u8 {
    TidX, TidY, TidZ, NtidX, NtidY, NtidZ, CtaidX, CtaidY, CtaidZ, NctaidX, NctaidY, NctaidZ, Laneid, Warpid, Nwarpid,
    Smid, Nsmid, Gridid, LanemaskEq, LanemaskLe, LanemaskLt, LanemaskGe, LanemaskGt, ClusterCtarank, ClusterNctarank,
    ClusteridX, NclusteridX, ClusterCtaidX, ClusterNctaidX, DynamicSmemSize, TotalSmemSize, Clock
};

struct Parameter {
    std::string name;
    u64 bytes, align, offset;
};

struct Module;

struct Kernel {
    std::string name;
    const Module* module = nullptr;
    u64 address = 0;  // by which kernels launch it
    std::vector<Parameter> parameters;
    u64 parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;
    u64 dynamic_align = 0;  // alignment of the dynamic shared memory; 0 without any
    int dynamic_row = -1;   // constant that holds the address of the dynamic shared memory
    int cluster = 1;
    u32 max_threads = 0;    // .maxntid; 0 without a limit
    u32 least_granule = 4;  // smallest access in bytes, at most 4: the unit of race detection
    bool uses_wgmma = false;
    bool has_strong_loads = false;
    Scope least_scope = Scope::Gpu;  // of its fences and strong accesses
    std::vector<Instruction> code;
    std::vector<std::string> register_names;
    std::vector<u64> register_masks;  // the values that fit into each register
    std::vector<Row> constants;
    std::map<Special, int> specials;  // rows that are filled when a warp starts

    int constant(u64 value);
private:
    std::map<u64, int> known_constants;
};

struct Module {
    std::map<std::string, Kernel> kernels;
    std::map<std::string, u64> histogram;  // opcodes with modifiers
    std::vector<std::unique_ptr<std::vector<u8>>> storage;  // of .global and .const variables

    const Kernel* find(u64 address) const;  // null for an address of no kernel
};

// Parses and decodes; Error with the line for what is unknown. Variables are allocated in `memory`.
std::unique_ptr<Module> parse(const std::string& text, Memory& memory);

// Fills the instruction from `name` ("add", "rn", "f32"); Error for an unknown opcode or modifier.
void decode(Instruction&, const std::vector<std::string>& name);

}  // namespace ptx
