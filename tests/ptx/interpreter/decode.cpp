// Opcodes and their modifiers (section "Instruction Set"). A modifier that is not listed for its opcode is an error.
#include <algorithm>
#include <cstdio>

#include "program.h"

namespace ptx {
namespace {

// The modifiers of one instruction. Each is taken once; what is left at the end is unknown.
class Modifiers {
public:
    explicit Modifiers(const std::vector<std::string>& name) : words(name.begin() + 1, name.end()) {}

    bool take(const char* word) {
        auto found = std::find(words.begin(), words.end(), word);
        if (found == words.end()) return false;
        words.erase(found);
        return true;
    }
    std::string take_one(std::initializer_list<const char*> choices) {
        for (const char* choice : choices)
            if (take(choice)) return choice;
        return "";
    }
    Type take_type() {
        for (auto word = words.begin(); word != words.end(); ++word) {
            const Type type = find_type(*word);
            if (type == Type::None) continue;
            words.erase(word);
            return type;
        }
        throw Error("no type");
    }
    // The first that begins with `prefix`, without it.
    std::string take_prefixed(const std::string& prefix) {
        for (auto word = words.begin(); word != words.end(); ++word) {
            if (word->compare(0, prefix.size(), prefix) != 0) continue;
            const std::string rest = word->substr(prefix.size());
            words.erase(word);
            return rest;
        }
        return "";
    }
    void require_none() {
        if (!words.empty()) throw Error("unknown modifier ." + words[0]);
    }
    const std::string& first() {
        if (words.empty()) throw Error("modifiers are missing");
        return words[0];
    }

private:
    std::vector<std::string> words;
};

Rounding take_rounding(Modifiers& m) {
    const std::string found = m.take_one({"rn", "rz", "rm", "rp"});
    if (found.empty()) return Rounding::Default;
    return found == "rn" ? Rounding::Nearest : found == "rz" ? Rounding::Zero : found == "rm" ? Rounding::Down : Rounding::Up;
}

void take_flags(Instruction& i, Modifiers& m, std::initializer_list<std::pair<const char*, u32>> flags) {
    for (auto [word, flag] : flags)
        if (m.take(word)) i.flags |= flag;
}

Space take_space(Modifiers& m) {
    const std::string found =
        m.take_one({"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry"});
    if (found.empty()) return Space::Generic;
    if (found == "global") return Space::Global;
    if (found == "local") return Space::Local;
    if (found == "const") return Space::Const;
    return found[0] == 'p' ? Space::Param : Space::Shared;
}

std::array<int, 3> take_shape(Modifiers& m) {
    std::array<int, 3> shape = {};
    const std::string text = m.take_prefixed("m");
    if (sscanf(text.c_str(), "%dn%dk%d", &shape[0], &shape[1], &shape[2]) < 2) throw Error("no shape");
    return shape;
}

void take_scope(Instruction& i, Modifiers& m) {
    const std::string scope = m.take_one({"cta", "cluster", "gl", "gpu", "sys"});
    if (scope == "cta" || scope == "cluster") i.scope = scope == "cta" ? Scope::Cta : Scope::Cluster;
}

void take_order(Instruction& i, Modifiers& m) {
    const std::string order = m.take_one({"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"});
    take_scope(i, m);
    if (!order.empty() && order != "weak") i.flags |= STRONG;
    if (order == "acquire" || order == "acq_rel") i.flags |= ACQUIRES;
    if (order == "release" || order == "acq_rel") i.flags |= RELEASES;
}

const std::map<std::string, Compare> COMPARES = {
    {"eq", Compare::Eq},   {"ne", Compare::Ne},   {"lt", Compare::Lt},   {"le", Compare::Le},   {"gt", Compare::Gt},
    {"ge", Compare::Ge},   {"lo", Compare::Lt},   {"ls", Compare::Le},   {"hi", Compare::Gt},   {"hs", Compare::Ge},
    {"equ", Compare::Equ}, {"neu", Compare::Neu}, {"ltu", Compare::Ltu}, {"leu", Compare::Leu}, {"gtu", Compare::Gtu},
    {"geu", Compare::Geu}, {"num", Compare::Num}, {"nan", Compare::Nan}};

Action find_action(const std::string& word) {
    static const std::map<std::string, Action> actions = {
        {"add", Action::Add}, {"min", Action::Min}, {"max", Action::Max}, {"and", Action::And}, {"or", Action::Or},
        {"xor", Action::Xor}, {"exch", Action::Exch}, {"cas", Action::Cas}, {"inc", Action::Inc}, {"dec", Action::Dec},
        {"up", Action::Up}, {"down", Action::Down}, {"bfly", Action::Bfly}, {"idx", Action::Idx}, {"any", Action::Any},
        {"all", Action::All}, {"uni", Action::Uni}, {"ballot", Action::Ballot}, {"l", Action::L}, {"r", Action::R},
        {"finite", Action::Finite}, {"infinite", Action::Infinite}, {"number", Action::Number},
        {"notanumber", Action::NotANumber}, {"normal", Action::Normal}, {"subnormal", Action::Subnormal},
        {"f4e", Action::F4e}, {"b4e", Action::B4e}, {"rc8", Action::Rc8}, {"ecl", Action::Ecl}, {"ecr", Action::Ecr},
        {"rc16", Action::Rc16}};
    auto found = actions.find(word);
    return found == actions.end() ? Action::None : found->second;
}

Action take_action(Modifiers& m, std::initializer_list<const char*> choices) {
    const Action action = find_action(m.take_one(choices));
    if (action == Action::None) throw Error("the operation is missing");
    return action;
}

void decode_arithmetic(Instruction& i, Modifiers& m) {
    i.rounding = take_rounding(m);
    take_flags(i, m, {{"ftz", FTZ}, {"sat", SAT}, {"NaN", NAN_RESULT}});
    if (i.op == Op::Mul || i.op == Op::Mad) {
        take_flags(i, m, {{"wide", WIDE}, {"hi", HIGH}});
        m.take("lo");
    }
    if (i.op == Op::Div || i.op == Op::Rcp || i.op == Op::Sqrt || i.op == Op::Rsqrt || i.op == Op::Ex2 ||
        i.op == Op::Lg2 || i.op == Op::Sin || i.op == Op::Cos || i.op == Op::Tanh)
        m.take_one({"approx", "full"});
    i.type = m.take_type();
}

void decode_conversion(Instruction& i, Modifiers& m) {
    const std::string integer = m.take_one({"rni", "rzi", "rmi", "rpi"});
    if (integer.empty()) i.rounding = take_rounding(m);
    else {
        i.flags |= INTEGER_ROUND;
        i.rounding = integer == "rni" ? Rounding::Nearest : integer == "rzi" ? Rounding::Zero
                   : integer == "rmi" ? Rounding::Down : Rounding::Up;
    }
    take_flags(i, m, {{"ftz", FTZ}, {"sat", SAT}});
    i.type = m.take_type();
    i.source = m.take_type();
}

void decode_memory(Instruction& i, Modifiers& m) {
    take_order(i, m);
    i.space = take_space(m);
    m.take_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
    take_flags(i, m, {{"nc", NON_COHERENT}});
    m.take_one({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
    m.take_one({"L2::64B", "L2::128B", "L2::256B"});
    const std::string vector = m.take_one({"v2", "v4", "v8"});
    i.vector = vector.empty() ? 1 : static_cast<u8>(vector[1] - '0');
    i.type = m.take_type();
    i.bytes = bytes_of(i.type);
}

void decode_atomic(Instruction& i, Modifiers& m) {
    i.flags |= STRONG;
    take_order(i, m);
    i.space = take_space(m);
    i.action = take_action(m, {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
    m.take("noftz");
    i.type = m.take_type();
    i.bytes = bytes_of(i.type);
}

void decode_barrier(Instruction& i, Modifiers& m, bool bar) {
    if (m.take("warp")) {
        i.op = Op::WarpSync;
        if (!m.take("sync")) throw Error("bar.warp is bar.warp.sync");
        return;
    }
    if (m.take("cluster")) {
        i.op = m.take("arrive") ? Op::ClusterArrive : Op::ClusterWait;
        if (i.op == Op::ClusterWait && !m.take("wait")) throw Error("barrier.cluster without .arrive or .wait");
        const std::string order = m.take_one({"release", "acquire", "relaxed"});
        if (order != "relaxed") i.flags |= i.op == Op::ClusterArrive ? RELEASES : ACQUIRES;
        take_flags(i, m, {{"aligned", ALIGNED}});
        return;
    }
    m.take("cta");
    i.op = m.take("arrive") ? Op::BarArrive : Op::Bar;
    if (i.op == Op::Bar && !m.take("sync")) throw Error("only .sync and .arrive of barriers are executed");
    if (m.take("aligned") || bar) i.flags |= ALIGNED;
}

void decode_copy(Instruction& i, Modifiers& m) {
    if (!m.take("async")) throw Error("cp is cp.async");
    const bool bulk = m.take("bulk");
    if (m.take("commit_group")) {
        i.op = bulk ? Op::BulkCommit : Op::CpCommit;
    } else if (m.take("wait_group")) {
        i.op = bulk ? Op::BulkWait : Op::CpWait;
        take_flags(i, m, {{"read", READ_ONLY_WAIT}});
    } else if (m.take("wait_all")) {
        i.op = Op::CpWait;
    } else if (!bulk) {
        i.op = Op::CpAsync;
        m.take_one({"ca", "cg"});
        if (m.take_one({"shared", "shared::cta"}).empty() || !m.take("global")) throw Error("cp.async goes from global to shared memory");
        m.take_one({"L2::64B", "L2::128B", "L2::256B"});
        i.bytes = 4;
    } else {
        if (!m.take("tensor")) throw Error("only tensor copies of cp.async.bulk are executed");
        const std::string rank = m.take_one({"1d", "2d", "3d", "4d", "5d"});
        if (rank.empty()) throw Error("no rank");
        i.vector = static_cast<u8>(rank[0] - '0');
        i.op = m.first() == "global" ? Op::TmaStore : Op::TmaLoad;
        m.take("global");
        if (m.take_one({"shared::cta", "shared::cluster"}).empty()) throw Error("no shared memory");
        m.take("tile");
        if (i.op == Op::TmaStore) {
            if (!m.take("bulk_group")) throw Error("no .bulk_group");
        } else {
            if (!m.take("mbarrier::complete_tx::bytes")) throw Error("no .mbarrier::complete_tx::bytes");
            take_flags(i, m, {{"multicast::cluster", MULTICAST}});
        }
    }
}

void decode_mbarrier(Instruction& i, Modifiers& m) {
    if (m.take("init")) i.op = Op::MbarrierInit;
    else if (m.take("inval")) i.op = Op::MbarrierInval;
    else if (m.take("arrive")) i.op = Op::MbarrierArrive;
    else if (m.take("expect_tx")) i.op = Op::MbarrierExpect;
    else if (m.take("try_wait") || m.take("test_wait")) i.op = Op::MbarrierTry;
    else throw Error("unknown operation on an mbarrier");
    take_flags(i, m, {{"expect_tx", EXPECT_TX}, {"noComplete", NO_COMPLETE}});
    if (i.op == Op::MbarrierTry && !m.take("parity")) throw Error("only .parity waits are executed");
    const std::string order = m.take_one({"release", "acquire", "relaxed"});
    if (order == "relaxed") throw Error("relaxed operations on an mbarrier are not executed");
    m.take_one({"cta", "cluster"});
    m.take_one({"shared::cta", "shared::cluster", "shared"});
    if (!m.take("b64")) throw Error("an mbarrier is .b64");
}

void decode_wgmma(Instruction& i, Modifiers& m) {
    i.flags |= ALIGNED;
    if (m.take("fence")) i.op = Op::WgmmaFence;
    else if (m.take("commit_group")) i.op = Op::WgmmaCommit;
    else if (m.take("wait_group")) i.op = Op::WgmmaWait;
    else if (m.take("mma_async")) i.op = Op::Wgmma;
    else throw Error("unknown operation of wgmma");
    if (!m.take("sync") || !m.take("aligned")) throw Error("wgmma is .sync.aligned");
    if (i.op != Op::Wgmma) return;
    i.shape = take_shape(m);
    const Type sums = m.take_type();
    i.type = m.take_type();
    const bool half = i.type == Type::F16 || i.type == Type::BF16;
    if (m.take_type() != i.type || sums != Type::F32 || (!half && i.type != Type::TF32) || i.shape[0] != 64 ||
        i.shape[2] != (half ? 16 : 8))
        throw Error("only wgmma of 16-bit floats and tf32 with sums in .f32 is executed");
}

void decode_mma(Instruction& i, Modifiers& m) {
    i.flags |= ALIGNED;
    if (!m.take("sync") || !m.take("aligned")) throw Error("mma is .sync.aligned");
    i.shape = take_shape(m);
    if (!m.take("row") || !m.take("col")) throw Error("mma is .row.col");
    i.source = m.take_type();
    i.type = m.take_type();
    if (m.take_type() != i.type || m.take_type() != i.source) throw Error("mma of mixed types is not executed");
    const std::array<int, 3> s = i.shape;
    const bool half = i.type == Type::F16 || i.type == Type::BF16;
    const bool known =
        (s[0] == 16 && s[1] == 8 && half && (s[2] == 8 || s[2] == 16) && i.source == Type::F32) ||
        (s[0] == 16 && s[1] == 8 && i.type == Type::TF32 && (s[2] == 4 || s[2] == 8) && i.source == Type::F32) ||
        (s == std::array<int, 3>{8, 8, 4} && i.type == Type::F64 && i.source == Type::F64);
    if (!known) throw Error("this shape and these types of mma are not executed");
}

const std::map<std::string, Op> ARITHMETIC = {
    {"add", Op::Add}, {"sub", Op::Sub}, {"mul", Op::Mul}, {"mad", Op::Mad}, {"fma", Op::Fma}, {"div", Op::Div},
    {"rem", Op::Rem}, {"min", Op::Min}, {"max", Op::Max}, {"neg", Op::Neg}, {"abs", Op::Abs}, {"sad", Op::Sad},
    {"ex2", Op::Ex2}, {"lg2", Op::Lg2}, {"rcp", Op::Rcp}, {"sqrt", Op::Sqrt}, {"rsqrt", Op::Rsqrt}, {"sin", Op::Sin},
    {"cos", Op::Cos}, {"tanh", Op::Tanh}};

// Opcodes whose only modifier is a type.
const std::map<std::string, Op> TYPED = {
    {"mov", Op::Mov}, {"and", Op::And}, {"or", Op::Or}, {"xor", Op::Xor}, {"not", Op::Not}, {"shl", Op::Shl},
    {"shr", Op::Shr}, {"selp", Op::Selp}, {"popc", Op::Popc}, {"clz", Op::Clz}, {"brev", Op::Brev}, {"bfe", Op::Bfe},
    {"bfi", Op::Bfi}, {"lop3", Op::Lop3}, {"copysign", Op::Copysign}, {"activemask", Op::Activemask},
    {"nanosleep", Op::Nanosleep}};

}  // namespace

void decode(Instruction& i, const std::vector<std::string>& name) {
    const std::string& opcode = name[0];
    Modifiers m(name);
    auto arithmetic = ARITHMETIC.find(opcode);
    auto typed = TYPED.find(opcode);
    if (arithmetic != ARITHMETIC.end()) {
        i.op = arithmetic->second;
        decode_arithmetic(i, m);
    } else if (typed != TYPED.end()) {
        i.op = typed->second;
        i.type = m.take_type();
    } else if (opcode == "ld" || opcode == "st") {
        i.op = opcode == "ld" ? Op::Ld : Op::St;
        decode_memory(i, m);
    } else if (opcode == "setp") {
        i.op = Op::Setp;
        auto compare = COMPARES.find(m.first());
        if (compare == COMPARES.end()) throw Error("unknown comparison ." + m.first());
        i.compare = compare->second;
        m.take(compare->first.c_str());
        i.action = find_action(m.take_one({"and", "or", "xor"}));
        take_flags(i, m, {{"ftz", FTZ}});
        i.type = m.take_type();
    } else if (opcode == "cvt") {
        i.op = Op::Cvt;
        decode_conversion(i, m);
    } else if (opcode == "cvta") {
        i.op = Op::Cvta;
        take_flags(i, m, {{"to", TO}});
        i.space = take_space(m);
        i.type = m.take_type();
    } else if (opcode == "isspacep") {
        i.op = Op::Isspacep;
        i.space = take_space(m);
    } else if (opcode == "shf") {
        i.op = Op::Shf;
        i.action = take_action(m, {"l", "r"});
        take_flags(i, m, {{"wrap", WRAP}});
        m.take("clamp");
        i.type = m.take_type();
    } else if (opcode == "bfind") {
        i.op = Op::Bfind;
        take_flags(i, m, {{"shiftamt", SHIFTAMT}});
        i.type = m.take_type();
    } else if (opcode == "prmt") {
        i.op = Op::Prmt;
        i.type = m.take_type();
        i.action = find_action(m.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}));
    } else if (opcode == "dp2a" || opcode == "dp4a") {
        i.op = opcode == "dp2a" ? Op::Dp2a : Op::Dp4a;
        if (i.op == Op::Dp2a) {
            if (m.take("lo")) i.flags |= SECOND_LOW;
            else if (!m.take("hi")) throw Error("dp2a without .lo or .hi");
        }
        i.type = m.take_type();
        if (m.take_type() == Type::S32) i.flags |= SECOND_SIGNED;
    } else if (opcode == "testp") {
        i.op = Op::Testp;
        i.action = take_action(m, {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
        i.type = m.take_type();
    } else if (opcode == "atom" || opcode == "red") {
        i.op = opcode == "atom" ? Op::Atom : Op::Red;
        decode_atomic(i, m);
    } else if (opcode == "membar" || opcode == "fence") {
        i.op = Op::Fence;
        if (m.take("proxy")) {
            if (!m.take("async")) throw Error("only the proxy fence of .async is executed");
            i.flags |= PROXY_ASYNC;
            m.take_one({"global", "shared::cta", "shared::cluster"});
        }
        const std::string order = m.take_one({"sc", "acq_rel", "mbarrier_init", "release", "acquire"});
        if (order == "sc" || opcode == "membar") i.flags |= SEQUENTIAL;
        m.take_one({"release", "acquire"});
        take_scope(i, m);
    } else if (opcode == "prefetch" || opcode == "prefetchu") {
        i.op = Op::Prefetch;
        i.space = take_space(m);
        m.take_one({"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"});
    } else if (opcode == "bra") {
        i.op = Op::Bra;
        take_flags(i, m, {{"uni", UNIFORM}});
    } else if (opcode == "ret" || opcode == "exit") {
        i.op = Op::Ret;
        take_flags(i, m, {{"uni", UNIFORM}});
    } else if (opcode == "call") {
        i.op = Op::Call;
        m.take("uni");
    } else if (opcode == "trap") {
        i.op = Op::Trap;
    } else if (opcode == "bar" || opcode == "barrier") {
        decode_barrier(i, m, opcode == "bar");
    } else if (opcode == "shfl" || opcode == "vote" || opcode == "redux" || opcode == "match") {
        i.op = opcode == "shfl" ? Op::Shfl : opcode == "vote" ? Op::Vote : opcode == "redux" ? Op::Redux : Op::Match;
        if (!m.take("sync")) throw Error(opcode + " is " + opcode + ".sync");
        i.action = i.op == Op::Shfl ? take_action(m, {"up", "down", "bfly", "idx"})
                 : i.op == Op::Vote ? take_action(m, {"all", "any", "uni", "ballot"})
                 : i.op == Op::Match ? take_action(m, {"any", "all"})
                                     : take_action(m, {"add", "min", "max", "and", "or", "xor"});
        i.type = m.take_type();
    } else if (opcode == "elect") {
        i.op = Op::Elect;
        if (!m.take("sync")) throw Error("elect is elect.sync");
    } else if (opcode == "ldmatrix" || opcode == "stmatrix") {
        i.op = opcode == "ldmatrix" ? Op::Ldmatrix : Op::Stmatrix;
        i.flags |= ALIGNED;
        if (!m.take("sync") || !m.take("aligned") || !m.take("m8n8")) throw Error(opcode + " is .sync.aligned.m8n8");
        const std::string count = m.take_one({"x1", "x2", "x4"});
        if (count.empty()) throw Error("no number of matrices");
        i.vector = static_cast<u8>(count[1] - '0');
        take_flags(i, m, {{"trans", TRANS}});
        m.take_one({"shared", "shared::cta"});
        i.space = Space::Shared;
        if (!m.take("b16")) throw Error("only matrices of .b16 are executed");
    } else if (opcode == "mma") {
        i.op = Op::Mma;
        decode_mma(i, m);
    } else if (opcode == "wgmma") {
        decode_wgmma(i, m);
    } else if (opcode == "setmaxnreg") {
        i.op = Op::Setmaxnreg;
        i.flags |= ALIGNED;
        m.take_one({"inc", "dec"});
        if (!m.take("sync") || !m.take("aligned") || !m.take("u32")) throw Error("setmaxnreg is .sync.aligned.u32");
    } else if (opcode == "cp") {
        decode_copy(i, m);
    } else if (opcode == "mbarrier") {
        decode_mbarrier(i, m);
    } else if (opcode == "mapa") {
        i.op = Op::Mapa;
        i.space = take_space(m);
        if (i.space != Space::Shared) throw Error("only mapa of .shared::cluster is executed");
        i.type = m.take_type();
    } else throw Error("unknown instruction " + opcode);
    m.require_none();
}

}  // namespace ptx
