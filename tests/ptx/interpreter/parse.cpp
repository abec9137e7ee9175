// The grammar of PTX (sections "Syntax", "State Spaces, Types, and Variables", "Directives") as far as NVVM and NVRTC
// emit it. Functions are errors, since the compilers inline all device functions, and so are calls of others than the CUDA
// device runtime, by which kernels launch kernels.
#include <algorithm>
#include <cctype>
#include <set>

#include "program.h"

namespace ptx {

int Kernel::constant(u64 value) {
    auto [entry, is_new] = known_constants.try_emplace(value, static_cast<int>(constants.size()));
    if (is_new) {
        constants.emplace_back();
        constants.back().fill(value);
    }
    return entry->second;
}

namespace {

struct Token {
    std::string text;
    int line;
};

bool in_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }

std::vector<Token> tokenize(const std::string& text) {
    static const std::set<std::string> whole_lines = {".loc", ".file"};
    std::vector<Token> tokens;
    int line = 1;
    size_t i = 0;
    auto skip_to = [&](const char* end) {
        const size_t found = std::min(text.find(end, i), text.size());
        line += static_cast<int>(std::count(text.begin() + i, text.begin() + found, '\n'));
        i = found;
    };
    while (i < text.size() && text[i] != 0) {
        const char c = text[i];
        if (c == '\n') ++line, ++i;
        else if (isspace(static_cast<unsigned char>(c))) ++i;
        else if (text.compare(i, 2, "//") == 0) skip_to("\n");
        else if (text.compare(i, 2, "/*") == 0) {
            skip_to("*/");
            i += 2;
        } else if (c == '"') {
            const size_t end = text.find('"', i + 1);
            if (end == std::string::npos) throw Error("string without an end", "syntax", line);
            tokens.push_back({text.substr(i, end + 1 - i), line});
            i = end + 1;
        } else if (in_word(c)) {
            const size_t begin = i;
            while (i < text.size()) {
                if (in_word(text[i])) ++i;
                else if (text.compare(i, 2, "::") == 0) i += 2;
                else break;
            }
            tokens.push_back({text.substr(begin, i - begin), line});
            if (whole_lines.count(tokens.back().text)) {
                tokens.pop_back();
                skip_to("\n");
            }
        } else {
            tokens.push_back({std::string(1, c), line});
            ++i;
        }
    }
    tokens.push_back({"", line});
    return tokens;
}

const std::map<std::string, Special> SPECIALS = {
    {"%tid.x", Special::TidX}, {"%tid.y", Special::TidY}, {"%tid.z", Special::TidZ}, {"%ntid.x", Special::NtidX},
    {"%ntid.y", Special::NtidY}, {"%ntid.z", Special::NtidZ}, {"%ctaid.x", Special::CtaidX},
    {"%ctaid.y", Special::CtaidY}, {"%ctaid.z", Special::CtaidZ}, {"%nctaid.x", Special::NctaidX},
    {"%nctaid.y", Special::NctaidY}, {"%nctaid.z", Special::NctaidZ}, {"%laneid", Special::Laneid},
    {"%warpid", Special::Warpid}, {"%nwarpid", Special::Nwarpid}, {"%smid", Special::Smid}, {"%nsmid", Special::Nsmid},
    {"%gridid", Special::Gridid}, {"%lanemask_eq", Special::LanemaskEq}, {"%lanemask_le", Special::LanemaskLe},
    {"%lanemask_lt", Special::LanemaskLt}, {"%lanemask_ge", Special::LanemaskGe},
    {"%lanemask_gt", Special::LanemaskGt}, {"%cluster_ctarank", Special::ClusterCtarank},
    {"%cluster_nctarank", Special::ClusterNctarank}, {"%clusterid.x", Special::ClusteridX},
    {"%nclusterid.x", Special::NclusteridX}, {"%cluster_ctaid.x", Special::ClusterCtaidX},
    {"%cluster_nctaid.x", Special::ClusterNctaidX}, {"%dynamic_smem_size", Special::DynamicSmemSize},
    {"%total_smem_size", Special::TotalSmemSize}, {"%clock", Special::Clock}, {"%clock64", Special::Clock},
    {"%clock_hi", Special::Clock}, {"%globaltimer", Special::Clock}, {"%globaltimer_lo", Special::Clock}};

// Functions of the device runtime, version 2: NVRTC of CUDA 12 and 13 declares them by these names.
const std::map<std::string, Op> RUNTIME = {{"__cudaCDP2GetParameterBufferV2", Op::GetParameterBuffer},
                                           {"__cudaCDP2LaunchDeviceV2", Op::LaunchDevice},
                                           {"__cudaCDP2GetLastError", Op::GetLastError}};

constexpr u64 DYNAMIC = ~u64(0);

struct Symbol {
    Space space;
    u64 address;  // DYNAMIC: known when the kernel's static shared memory is
};

struct Declaration {
    std::string name;
    Type type = Type::None;
    u64 align = 0, bytes = 0;
};

u64 place(u64& total, u64 bytes, u64 align) {
    const u64 at = (total + align - 1) / align * align;
    total = at + bytes;
    return at;
}

class Parser {
public:
    Parser(const std::string& text, Memory& memory) : tokens(tokenize(text)), memory(memory) {}

    std::unique_ptr<Module> run() {
        parse_header();
        while (!peek().empty()) {
            const std::string word = next();
            if (word == ".visible" || word == ".weak" || word == ".extern" || word == ".common") continue;
            if (word == ".entry") parse_entry();
            else if (word == ".global" || word == ".const") parse_variable(word == ".const");
            else if (word == ".shared") {
                const Declaration variable = parse_declaration();
                module_shared[variable.name] = variable;
                expect(";");
            } else if (word == ".pragma") {
                next();
                expect(";");
            } else if (word == ".section") {  // line information
                while (next() != "}") continue;
            } else if (word == ".func") parse_function();
            else fail("unknown directive " + word);
        }
        return std::move(module);
    }

private:
    // The memory model that is executed is that of PTX 6.0 and later on sm_70 and later.
    void parse_header() {
        static const std::set<std::string> targets = {"70", "72", "75", "80", "86", "87", "88", "89", "90",
                                                      "100", "101", "103", "110", "120", "121"};
        expect(".version");
        const std::string version = next();
        if (version.size() != 3 || version[0] < '6' || version[0] > '9' || version[1] != '.' || !isdigit(static_cast<unsigned char>(version[2])))
            fail("unknown version " + version + " (6.0 to 9.9 are executed)");
        expect(".target");
        const std::string target = next();
        std::string number = target.substr(0, 3) == "sm_" ? target.substr(3) : "";
        if (!number.empty() && (number.back() == 'a' || number.back() == 'f')) number.pop_back();
        if (!targets.count(number)) fail("unknown target " + target);
        while (accept(",")) next();
        expect(".address_size");
        if (next() != "64") fail("addresses have 64 bits");
    }

    std::vector<Token> tokens;
    size_t at = 0;
    Memory& memory;
    std::unique_ptr<Module> module = std::make_unique<Module>();
    std::map<std::string, Symbol> globals;
    std::map<std::string, Declaration> module_shared;

    // The kernel that is parsed. Registers and labels are known within their braces.
    Kernel* kernel = nullptr;
    std::map<std::string, Symbol> symbols;
    struct Scope {
        std::map<std::string, int> registers, labels;
    };
    std::vector<Scope> scopes;
    struct Branch {
        int instruction;
        std::string label;
        std::vector<int> scopes;
        int line;
    };
    std::vector<Branch> branches;
    std::map<std::pair<int, std::string>, int> labels;  // by the number of their scope
    std::vector<int> scope_numbers;
    int scope_count = 0;

    [[noreturn]] void fail(const std::string& what) { fail(what, tokens[at ? at - 1 : 0].line); }
    [[noreturn]] void fail(const std::string& what, int line) { throw Error(what, "syntax", line); }
    const std::string& peek() { return tokens[at].text; }
    std::string next() {
        if (tokens[at].text.empty()) fail("the text ends too early");
        return tokens[at++].text;
    }
    bool accept(const char* text) {
        if (peek() != text) return false;
        ++at;
        return true;
    }
    void expect(const char* text) {
        if (!accept(text)) fail(print("expected '%s' before '%.60s'", text, peek().c_str()), tokens[at].line);
    }

    u64 parse_integer(const std::string& word) {
        try {
            size_t used = 0;
            const bool is_float = word.size() > 2 && word[0] == '0' && strchr("fFdD", word[1]);
            const u64 value = is_float ? std::stoull(word.substr(2), &used, 16) : std::stoull(word, &used, 0);
            const std::string rest = word.substr(used + (is_float ? 2 : 0));
            if (rest.empty() || rest == "U") return value;
        } catch (const std::logic_error&) {
        }
        fail("'" + word + "' is not an integer or the bits of a floating-point number");
    }
    u64 parse_number() {
        const bool negative = accept("-");
        const u64 value = parse_integer(next());
        return negative ? ~value + 1 : value;
    }

    Declaration parse_declaration() {
        Declaration result;
        u64 vector = 1;
        bool pointer = false;  // an .align after .ptr is that of the memory to which a parameter points
        while (peek()[0] == '.') {
            const std::string word = next();
            if (word == ".align") {
                const u64 align = parse_integer(next());
                if (!pointer) result.align = align;
            } else if (word == ".ptr") pointer = true;
            else if (word == ".v2") vector = 2;
            else if (word == ".v4") vector = 4;
            else if (word == ".global" || word == ".shared" || word == ".const" || word == ".param")
                continue;
            else if ((result.type = find_type(word.substr(1))) == Type::None) fail("unknown type " + word);
        }
        if (result.type == Type::None) fail("a variable without a type");
        result.name = next();
        result.bytes = bytes_of(result.type) * vector;
        if (!result.align) result.align = result.bytes;
        while (accept("[")) {
            if (accept("]")) {
                result.bytes = 0;
                continue;
            }
            result.bytes *= parse_integer(next());
            expect("]");
        }
        return result;
    }

    void parse_variable(bool constant) {
        const Declaration variable = parse_declaration();
        module->storage.push_back(std::make_unique<std::vector<u8>>(variable.bytes));
        u8* data = module->storage.back()->data();
        if (accept("=")) {
            std::vector<u64> values;
            if (accept("{")) {
                while (!accept("}")) {
                    values.push_back(parse_number());
                    accept(",");
                }
            } else values.push_back(parse_number());
            const int size = bytes_of(variable.type);
            if (values.size() * size > variable.bytes) fail("more initial values than elements");
            for (size_t i = 0; i < values.size(); ++i) memcpy(data + i * size, &values[i], size);
        }
        expect(";");
        globals[variable.name] = {constant ? Space::Const : Space::Global,
                                  memory.allocate(data, variable.bytes, constant, true)};
    }

    // Declarations of the device runtime's functions: (result) name (parameters);
    void parse_function() {
        const int line = tokens[at - 1].line;
        if (accept("("))
            while (next() != ")") continue;
        if (!RUNTIME.count(next())) fail("functions and calls are not executed", line);
        while (next() != ";") continue;
    }

    void parse_entry() {
        const std::string name = next();
        kernel = &module->kernels[name];
        kernel->name = name;
        kernel->module = module.get();
        kernel->address = KERNEL_WINDOW + module->kernels.size();
        symbols.clear();
        branches.clear();
        labels.clear();
        if (accept("(")) {
            while (!accept(")")) {
                expect(".param");
                const Declaration given = parse_declaration();
                const u64 offset = place(kernel->parameter_bytes, given.bytes, given.align);
                kernel->parameters.push_back({given.name, given.bytes, given.align, offset});
                symbols[given.name] = {Space::Param, offset};
                accept(",");
            }
        }
        while (!accept("{")) {
            const std::string word = next();
            if (word == ".maxntid" || word == ".reqntid") {
                kernel->max_threads = static_cast<u32>(parse_number());
                while (accept(",")) kernel->max_threads *= static_cast<u32>(parse_number());
            } else if (word == ".minnctapersm" || word == ".maxnreg") parse_number();
            else if (word == ".reqnctapercluster") {
                kernel->cluster = static_cast<int>(parse_number());
                while (accept(",")) kernel->cluster *= static_cast<int>(parse_number());
            } else if (word == ".explicitcluster" || word == ".noreturn") continue;
            else if (word == ".pragma") {
                next();
                expect(";");
            } else fail("unknown directive " + word);
        }
        parse_body();
        for (const Branch& branch : branches) kernel->code[branch.instruction].target = find_label(branch);
        if (kernel->dynamic_row >= 0) {
            u64 end = kernel->shared_bytes;
            kernel->constants[kernel->dynamic_row].fill(place(end, 0, kernel->dynamic_align));
        }
    }

    int find_label(const Branch& branch) {
        for (auto scope = branch.scopes.rbegin(); scope != branch.scopes.rend(); ++scope) {
            auto found = labels.find({*scope, branch.label});
            if (found != labels.end()) return found->second;
        }
        fail("unknown label " + branch.label, branch.line);
    }

    void parse_body() {
        scopes.emplace_back();
        scope_numbers.push_back(scope_count++);
        while (!accept("}")) {
            if (accept(";")) continue;
            if (accept("{")) {
                parse_body();
                continue;
            }
            if (tokens[at + 1].text == ":") {
                if (!labels.emplace(std::pair(scope_numbers.back(), peek()), kernel->code.size()).second)
                    fail("label " + peek() + " is defined twice", tokens[at].line);
                at += 2;
            } else if (accept(".reg")) parse_registers();
            else if (accept(".shared")) {
                declare_shared(parse_declaration());
                expect(";");
            } else if (accept(".local") || accept(".param")) {  // .param: an argument or the result of a call
                const Declaration variable = parse_declaration();
                symbols[variable.name] = {Space::Local, place(kernel->local_bytes, variable.bytes, variable.align)};
                expect(";");
            } else if (accept(".pragma")) {
                next();
                expect(";");
            } else if (peek()[0] == '.') fail("unknown directive " + peek(), tokens[at].line);
            else parse_instruction();
        }
        scopes.pop_back();
        scope_numbers.pop_back();
    }

    void declare_shared(const Declaration& variable) {
        if (variable.bytes) {
            symbols[variable.name] = {Space::Shared, place(kernel->shared_bytes, variable.bytes, variable.align)};
            return;
        }
        symbols[variable.name] = {Space::Shared, DYNAMIC};
        kernel->dynamic_align = std::max(kernel->dynamic_align, variable.align);
        if (kernel->dynamic_row < 0) {
            kernel->dynamic_row = static_cast<int>(kernel->constants.size());
            kernel->constants.emplace_back();
        }
    }

    int add_register(const std::string& name, Type type) {
        const int number = static_cast<int>(kernel->register_names.size());
        kernel->register_names.push_back(name);
        kernel->register_masks.push_back(type == Type::Pred ? 1 : truncate(~u64(0), bytes_of(type)));
        return number;
    }

    void parse_registers() {
        const std::string word = next();
        const Type type = find_type(word.substr(1));
        if (type == Type::None || type == Type::B128) fail("registers of type " + word);
        do {
            const std::string name = next();
            if (accept("<")) {
                const u64 count = parse_integer(next());
                expect(">");
                for (u64 i = 0; i < count; ++i)
                    scopes.back().registers[name + std::to_string(i)] = add_register(name + std::to_string(i), type);
            } else scopes.back().registers[name] = add_register(name, type);
        } while (accept(","));
        expect(";");
    }

    int find_register(const std::string& name) {
        for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
            auto found = scope->registers.find(name);
            if (found != scope->registers.end()) return found->second;
        }
        return -1;
    }

    Operand constant(u64 value) {
        Operand result;
        result.kind = Operand::Row;
        result.constant = true;
        result.row = kernel->constant(value);
        return result;
    }

    Operand find_symbol(const std::string& name) {
        auto found = symbols.find(name);
        if (found == symbols.end() && module_shared.count(name)) {
            declare_shared(module_shared[name]);
            found = symbols.find(name);
        }
        if (found == symbols.end() && (found = globals.find(name)) == globals.end()) {
            auto launched = module->kernels.find(name);
            if (launched == module->kernels.end()) fail("unknown name " + name);
            return constant(launched->second.address);
        }
        Operand result;
        if (found->second.address != DYNAMIC) return constant(found->second.address);
        result.kind = Operand::Row;
        result.constant = true;
        result.row = kernel->dynamic_row;
        return result;
    }

    Operand find_special(const std::string& name, Instruction& instruction) {
        auto found = SPECIALS.find(name);
        if (found == SPECIALS.end()) fail("unknown register " + name);
        auto [entry, is_new] = kernel->specials.try_emplace(found->second, 0);
        if (is_new) entry->second = add_register(name, Type::U64);
        if (found->second == Special::Clock) instruction.flags |= READS_CLOCK;
        Operand result;
        result.kind = Operand::Row;
        result.row = entry->second;
        return result;
    }

    Operand parse_operand(Instruction& instruction) {
        Operand result;
        if (accept("{")) {
            result.kind = Operand::Vector;
            while (!accept("}")) {
                result.parts.push_back(parse_operand(instruction));
                accept(",");
            }
            return result;
        }
        if (accept("[")) {
            auto symbol = symbols.find(peek());
            if (instruction.space == Space::Param && symbol != symbols.end()) instruction.space = symbol->second.space;
            const Operand base = parse_operand(instruction);
            if (base.kind != Operand::Row) fail("not an address");
            result.kind = Operand::Address;
            result.constant = base.constant;
            result.row = base.row;
            if (accept("+")) result.offset = static_cast<s64>(parse_number());
            else if (peek() == "-") result.offset = static_cast<s64>(parse_number());
            if (accept(",")) result.parts.push_back(parse_operand(instruction));
            expect("]");
            return result;
        }
        const bool negated = accept("!");
        if (peek() == "-" || isdigit(static_cast<unsigned char>(peek()[0]))) return constant(parse_number());
        const std::string name = next();
        if (name == "_") {
            if (accept("|")) result.parts.push_back(parse_operand(instruction));
            return result;
        }
        if (name == "WARP_SZ") return constant(LANES);
        const int number = find_register(name);
        if (number >= 0) {
            result.kind = Operand::Row;
            result.row = number;
            result.negated = negated;
            if (accept("|")) result.parts.push_back(parse_operand(instruction));
            return result;
        }
        return name[0] == '%' ? find_special(name, instruction) : find_symbol(name);
    }

    // (result), function, (arguments): the operands are addresses in local memory.
    void parse_call(Instruction& instruction) {
        expect("(");
        instruction.operands.push_back(find_symbol(next()));
        expect(")");
        expect(",");
        auto function = RUNTIME.find(next());
        if (function == RUNTIME.end()) fail("functions and calls are not executed");
        instruction.op = function->second;
        expect(",");
        expect("(");
        while (!accept(")")) {
            instruction.operands.push_back(find_symbol(next()));
            accept(",");
        }
        expect(";");
    }

    void parse_instruction() {
        Instruction instruction;
        const size_t begin = at;
        instruction.line = tokens[at].line;
        if (accept("@")) {
            instruction.guard_negated = accept("!");
            instruction.guard = find_register(peek());
            if (instruction.guard < 0) fail("unknown predicate " + peek());
            ++at;
        }
        const std::string name = next();
        std::vector<std::string> words(1);
        for (char c : name) {
            if (c == '.') words.emplace_back();
            else words.back() += c;
        }
        try {
            decode(instruction, words);
        } catch (const Error& error) {
            fail(error.what());
        }
        if (instruction.op == Op::Bra) {
            branches.push_back({static_cast<int>(kernel->code.size()), next(), scope_numbers, instruction.line});
            expect(";");
        } else if (instruction.op == Op::Call) {
            parse_call(instruction);
        } else {
            while (!accept(";")) {
                instruction.operands.push_back(parse_operand(instruction));
                if (peek() != ";") expect(",");
            }
        }
        if (instruction.op == Op::Ld || instruction.op == Op::St)  // a vector of one element is the element
            for (Operand& operand : instruction.operands)
                if (operand.kind == Operand::Vector && operand.parts.size() == 1) operand = Operand(operand.parts[0]);
        for (size_t i = begin; i + 1 < at; ++i) {
            if (i > begin && !strchr(",]}", tokens[i].text[0]) && !strchr("[{!@", tokens[i - 1].text[0]))
                instruction.text += ' ';
            instruction.text += tokens[i].text;
        }
        if (instruction.bytes && instruction.space != Space::Param)
            kernel->least_granule = std::min<u32>(kernel->least_granule, instruction.bytes);
        kernel->uses_wgmma |= instruction.op == Op::Wgmma;
        kernel->has_strong_loads |= instruction.op == Op::Ld && instruction.has(STRONG);
        kernel->least_scope = std::min(kernel->least_scope, instruction.scope);
        ++module->histogram[name];
        kernel->code.push_back(std::move(instruction));
    }
};

}  // namespace

const Kernel* Module::find(u64 address) const {
    for (const auto& [name, kernel] : kernels)
        if (kernel.address == address) return &kernel;
    return nullptr;
}

std::unique_ptr<Module> parse(const std::string& text, Memory& memory) { return Parser(text, memory).run(); }

}  // namespace ptx
