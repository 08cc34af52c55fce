#include "tests/ptx/parse.h"
#include "tests/ptx/plant.h"

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdlib>
#include <cxxabi.h>
#include <fstream>
#include <sstream>

namespace ptx {

void fail(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    throw fault(text);
}

// ---- types ---------------------------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    type is;
    int bits, bytes;
} types[] = {{"u8", type::U8, 16, 1},   {"s8", type::S8, 16, 1},    {"b8", type::B8, 16, 1},       {"u16", type::U16, 16, 2},
             {"s16", type::S16, 16, 2}, {"b16", type::B16, 16, 2},  {"u32", type::U32, 32, 4},     {"s32", type::S32, 32, 4},
             {"b32", type::B32, 32, 4}, {"u64", type::U64, 64, 8},  {"s64", type::S64, 64, 8},     {"b64", type::B64, 64, 8},
             {"f16", type::F16, 16, 2}, {"bf16", type::BF16, 16, 2}, {"f32", type::F32, 32, 4},    {"f64", type::F64, 64, 8},
             {"f16x2", type::F16X2, 32, 4}, {"bf16x2", type::BF16X2, 32, 4}, {"pred", type::PRED, 1, 0}};

type type_of(const std::string &name) {
    for (const auto &t : types)
        if (name == t.name) return t.is;
    return type::NONE;
}
int bits_of(type is) {
    for (const auto &t : types)
        if (is == t.is) return t.bits;
    fail("a register without a type");
}
int bytes_of(type is) {
    for (const auto &t : types)
        if (is == t.is) return t.bytes;
    fail("a value without a type");
}

bool statement::has(const char *part) const { return std::find(parts.begin() + 1, parts.end(), part) != parts.end(); }
type statement::last() const { return type_of(parts.back()); }
std::string statement::opcode() const {
    std::string all;
    for (const auto &part : parts)
        all += (all.empty() ? "" : ".") + part;
    return all;
}

// ---- text ----------------------------------------------------------------------------------------------------------------

static std::string trimmed(const std::string &text) {
    size_t from = 0, to = text.size();
    while (from < to && isspace((unsigned char)text[from])) from++;
    while (to > from && isspace((unsigned char)text[to - 1])) to--;
    return text.substr(from, to - from);
}

std::vector<std::string> split(const std::string &text, char at) {
    std::vector<std::string> parts;
    std::string part;
    int depth = 0;
    for (size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        depth += (c == '{' || c == '[' || c == '(') - (c == '}' || c == ']' || c == ')');
        if (c == at && depth == 0) parts.push_back(trimmed(part)), part.clear();
        else part += c;
    }
    if (!trimmed(part).empty()) parts.push_back(trimmed(part));
    return parts;
}

static std::string without_comments(const std::string &text) {
    std::string out;
    out.reserve(text.size());
    for (size_t from = 0; from < text.size();) {
        const size_t comment = std::min(text.find("//", from), text.size());
        out.append(text, from, comment - from);
        from = std::min(text.find('\n', comment), text.size());
    }
    return out;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.'; }

// The brace that closes that at `at`.
static size_t closing(const std::string &text, size_t at) {
    int depth = 0;
    for (; at < text.size(); at++) {
        depth += (text[at] == '{') - (text[at] == '}');
        if (depth == 0) return at;
    }
    fail("a brace is not closed");
}

module::module(const std::string &path) : path_(path) {
    std::ifstream file(path);
    if (!file) fail("cannot read %s", path.c_str());
    std::stringstream all;
    all << file.rdbuf();
    text_ = without_comments(all.str());
    for (size_t at = text_.find(".entry"); at != std::string::npos; at = text_.find(".entry", at + 6)) {
        size_t from = at + 6, to;
        while (isspace((unsigned char)text_[from])) from++;
        for (to = from; is_word(text_[to]);) to++;
        const std::string name = text_.substr(from, to - from);
        int status = 0;
        char *plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
        entries_.push_back({status == 0 ? plain : name, name});
        free(plain);
    }
    for (size_t at = text_.find("\t.file"); at != std::string::npos; at = text_.find("\t.file", at + 6)) {
        int number;
        char name[512];
        if (sscanf(text_.c_str() + at, " .file %d \"%511[^\"]", &number, name) == 2) files_[number] = name;
    }
}

int64_t literal(const std::string &text) {
    const char *begin = text.c_str();
    char *end;
    const int64_t value = text[0] == '-' ? strtoll(begin, &end, 0) : int64_t(strtoull(begin, &end, 0));
    if (*end == 'U') end++;
    if (end == begin || *end != '\0') fail("\"%s\" is no number", begin);
    return value;
}

// ---- a kernel ------------------------------------------------------------------------------------------------------------

class reader {
  public:
    reader(const module &of, const std::string &name) : module_(of), k(new kernel), planted(name) {
        k->name = name;
        for (int d = 0; d < 3; d++)
            k->tid[d] = k->ntid[d] = k->ctaid[d] = k->nctaid[d] = -1;
        k->dynamic_shared[0] = k->dynamic_shared[1] = -1;
    }
    std::unique_ptr<kernel> kernel_of_text();

    struct name_ {
        int slot, bits;
        bool is_stored; // a .param of a call: a register in another form
    };
    int new_slot(int bits, uint64_t value) {
        const int slot = int(k->image.size() / WARP);
        k->image.resize(k->image.size() + (bits == 64 ? 2 : 1) * WARP);
        if (bits == 1) {
            k->image[size_t(slot) * WARP] = value != 0 ? EVERY_LANE : 0;
        } else if (bits == 64) {
            for (int l = 0; l < WARP; l++)
                reinterpret_cast<uint64_t *>(&k->image[size_t(slot) * WARP])[l] = value;
        } else {
            for (int l = 0; l < WARP; l++)
                k->image[size_t(slot) * WARP + l] = uint32_t(value);
        }
        return slot;
    }
    operand constant(int bits, uint64_t value) {
        const auto key = std::make_pair(bits, value);
        if (constants.find(key) == constants.end()) constants[key] = new_slot(bits, value);
        return {constants[key], bits, false};
    }
    operand special(const std::string &text);
    operand symbol(const std::string &text, int bits, bool *found);

    const module &module_;
    std::unique_ptr<kernel> k;
    plant planted;
    std::map<std::string, name_> names;
    std::map<std::pair<int, uint64_t>, int> constants;

  private:
    struct function {
        int begin = -1, link = -1;
        std::vector<name_> formals;
        name_ result{};
    };
    void declare(const std::string &text);
    void parameters(const std::string &text);
    void body(const std::string &text, const std::string &prefix);
    void statement_(std::string text);
    void call(const std::string &text, instruction i);
    void move(const name_ &to, const name_ &from);
    function &function_of(const std::string &name);

    std::map<std::string, int> labels;
    std::vector<std::pair<size_t, std::string>> jumps;                // instructions, and labels that they name
    std::vector<std::pair<size_t, std::string>> calls;                // instructions, and functions that they call
    std::map<std::string, size_t> shared;                             // symbols
    std::map<std::string, function> functions;
    std::string prefix_;
    int in_function = -1; // link of the function whose body it is
    int line = 0;
    std::string file;
};

// .tid and its kin: "Special Registers".
operand reader::special(const std::string &text) {
    static const struct {
        const char *name;
        int (kernel::*slots)[3];
    } all[] = {{"%tid.", &kernel::tid}, {"%ntid.", &kernel::ntid}, {"%ctaid.", &kernel::ctaid}, {"%nctaid.", &kernel::nctaid}};
    for (const auto &s : all) {
        const size_t length = strlen(s.name);
        if (text.compare(0, length, s.name) != 0 || text.size() != length + 1) continue;
        const int d = text[length] - 'x';
        if (d < 0 || d > 2) break;
        int &slot = ((*k).*s.slots)[d];
        if (slot < 0) slot = new_slot(32, 0);
        return {slot, 32, false};
    }
    fail("no register \"%s\"", text.c_str());
}

operand reader::symbol(const std::string &text, int bits, bool *found) {
    *found = true;
    const auto place = shared.find(text);
    if (place != shared.end()) return constant(bits, SHARED_BEGIN + place->second);
    for (const auto &p : k->parameters)
        if (p.name == text) {
            const int slot = new_slot(64, 0);
            k->parameter_address.push_back({slot, p.offset});
            return {slot, 64, false};
        }
    if (text.compare(0, 13, "__local_depot") == 0) {
        const int slot = new_slot(64, 0);
        k->local.push_back(slot);
        return {slot, 64, false};
    }
    if (shared.count("dynamic " + text) != 0) {
        int &slot = k->dynamic_shared[bits == 64];
        if (slot < 0) slot = new_slot(bits, 0);
        return {slot, bits, false};
    }
    *found = false;
    return {};
}

operand source(reader &r, const std::string &text, type t, bool any_width) {
    if (text.empty()) fail("an operand is missing");
    if (text[0] == '!') {
        operand o = source(r, trimmed(text.substr(1)), t, any_width);
        o.is_not = true;
        return o;
    }
    const int bits = bits_of(t);
    const auto known = r.names.find(text);
    if (known != r.names.end()) {
        if (known->second.bits != bits && !any_width) fail("%s has %d bits instead of %d", text.c_str(), known->second.bits, bits);
        return {known->second.slot, known->second.bits, false};
    }
    if (text[0] == '%') return r.special(text);
    if (text.compare(0, 2, "0f") == 0 || text.compare(0, 2, "0F") == 0)
        return r.constant(32, strtoull(text.c_str() + 2, nullptr, 16));
    if (text.compare(0, 2, "0d") == 0 || text.compare(0, 2, "0D") == 0)
        return r.constant(64, strtoull(text.c_str() + 2, nullptr, 16));
    bool found;
    const operand o = r.symbol(text, bits, &found);
    if (found) return o;
    const uint64_t value = uint64_t(literal(text));
    return r.constant(bits, bits == 64 ? value : bits == 16 ? uint16_t(value) : uint32_t(value));
}

operand target(reader &r, const std::string &text, type t, bool any_width) {
    if (text == "_") return {};
    const auto known = r.names.find(text);
    if (known == r.names.end()) fail("no register \"%s\"", text.c_str());
    if (known->second.bits != bits_of(t) && !any_width)
        fail("%s has %d bits instead of %d", text.c_str(), known->second.bits, bits_of(t));
    return {known->second.slot, known->second.bits, false};
}

std::vector<operand> braces(reader &r, const std::string &text, type t, bool targets, bool any_width) {
    std::vector<operand> all;
    std::vector<std::string> names{text};
    if (text[0] == '{') names = split(text.substr(1, text.size() - 2), ',');
    for (const auto &name : names)
        all.push_back(targets ? target(r, name, t, any_width) : source(r, name, t, any_width));
    return all;
}

operand address(reader &r, const std::string &text, int64_t *offset, bool is_shared) {
    if (text.size() < 3 || text[0] != '[' || text.back() != ']') fail("\"%s\" is no address", text.c_str());
    std::string inside = trimmed(text.substr(1, text.size() - 2));
    const size_t plus = inside.find('+');
    *offset = 0;
    if (plus != std::string::npos) {
        *offset = literal(trimmed(inside.substr(plus + 1)));
        inside = trimmed(inside.substr(0, plus));
    }
    return source(r, inside, is_shared ? type::U32 : type::U64, true);
}

bool parameter_of_call(reader &r, const std::string &text, operand *found) {
    const size_t end = text.find_first_of("+]");
    const auto known = r.names.find(trimmed(text.substr(1, end - 1)));
    if (known == r.names.end() || !known->second.is_stored) return false;
    if (text[end] == '+' && literal(trimmed(text.substr(end + 1, text.size() - end - 2))) != 0) fail("a part of a parameter");
    *found = {known->second.slot, 64, false};
    return true;
}

// .reg, .shared, .local, .param
void reader::declare(const std::string &text) {
    std::istringstream words(text);
    std::string kind, word;
    words >> kind;
    size_t alignment = 1;
    std::string t;
    while (words >> word && word[0] == '.') {
        if (word == ".align") words >> alignment;
        else t = word.substr(1);
    }
    std::string rest, more;
    std::getline(words, more);
    rest = word + more;
    for (const std::string &name : split(rest, ',')) {
        const size_t many = name.find('<'), array = name.find('[');
        const size_t count = many != std::string::npos    ? size_t(atoll(name.c_str() + many + 1))
                             : array != std::string::npos ? size_t(atoll(name.c_str() + array + 1))
                                                          : 1;
        const std::string plain = trimmed(name.substr(0, std::min(many, array)));
        if (kind == ".reg") {
            const int bits = bits_of(type_of(t));
            if (many == std::string::npos) names[plain] = {new_slot(bits, bits == 1 ? 0 : ~0ull), bits, false};
            else
                for (size_t i = 0; i < count; i++)
                    names[plain + std::to_string(i)] = {new_slot(bits, bits == 1 ? 0 : ~0ull), bits, false};
        } else if (kind == ".shared") {
            k->static_shared = (k->static_shared + alignment - 1) / alignment * alignment;
            shared[plain] = k->static_shared;
            k->static_shared += count * size_t(bytes_of(type_of(t)));
        } else if (kind == ".local") {
            k->local_bytes = std::max(k->local_bytes, count);
        } else if (kind == ".param") {
            names[plain] = {new_slot(64, ~0ull), 64, true};
        } else {
            fail("no declaration \"%s\"", kind.c_str());
        }
    }
}

// Of an entry: "(.param .align 8 .b8 name[64], ...)".
void reader::parameters(const std::string &text) {
    for (const std::string &p : split(text, ',')) {
        std::istringstream words(p);
        std::string word, t;
        size_t alignment = 0;
        while (words >> word && word[0] == '.') {
            if (word == ".align") words >> alignment;
            else if (word != ".param" && type_of(word.substr(1)) != type::NONE) t = word.substr(1);
        }
        const size_t array = word.find('[');
        const size_t size = size_t(bytes_of(type_of(t)));
        const size_t bytes = array == std::string::npos ? size : size * size_t(atoll(word.c_str() + array + 1));
        if (alignment == 0) alignment = size;
        k->parameter_bytes = (k->parameter_bytes + alignment - 1) / alignment * alignment;
        k->parameters.push_back({word.substr(0, array), k->parameter_bytes, bytes});
        k->parameter_bytes += bytes;
    }
}

void reader::move(const name_ &to, const name_ &from) {
    instruction i;
    i.text = "a parameter of a call";
    i.to = {to.slot, 64, false};
    i.from[0] = {from.slot, 64, false};
    i.run = [](warp &w, const instruction &what, uint32_t lanes) {
        for (int l = 0; l < WARP; l++)
            if (lanes >> l & 1) w.put(what.to, l, w.bits(what.from[0], l));
    };
    k->code.push_back(i);
}

reader::function &reader::function_of(const std::string &name) {
    function &f = functions[name];
    if (f.link < 0) f.link = new_slot(32, 0);
    return f;
}

// call.uni (result), name, (arguments): values of 64 bits, no recursion.
void reader::call(const std::string &text, instruction i) {
    const auto parts = split(text, ',');
    if (parts.size() != 3 || parts[0][0] != '(' || parts[2][0] != '(') fail("a call in another form: %s", text.c_str());
    auto inside = [](const std::string &list) { return split(list.substr(1, list.size() - 2), ','); };
    function &f = function_of(parts[1]);
    const auto arguments = inside(parts[2]), results = inside(parts[0]);
    if (results.size() != 1) fail("a call with %zu results", results.size());
    while (f.formals.size() < arguments.size())
        f.formals.push_back({new_slot(64, ~0ull), 64, true});
    if (f.result.bits == 0) f.result = {new_slot(64, ~0ull), 64, true};
    for (size_t a = 0; a < arguments.size(); a++)
        move(f.formals[a], names.at(arguments[a]));
    i.kind = instruction::CALL;
    i.link = f.link;
    calls.push_back({k->code.size(), parts[1]});
    k->code.push_back(i);
    move(names.at(results[0]), f.result);
}

void reader::statement_(std::string text) {
    instruction i;
    i.text = text;
    i.line = line;
    i.file = file;
    if (text[0] == '@') {
        const size_t space = text.find_first_of(" \t");
        i.guard = source(*this, text.substr(1, space - 1), type::PRED);
        text = trimmed(text.substr(space));
    }
    for (const char *acting : {"st.", "mbarrier.arrive", "cp.async", "wgmma.wait", "tcgen05."})
        i.acts |= text.compare(0, strlen(acting), acting) == 0;
    size_t end = 0;
    while (end < text.size() && (is_word(text[end]) || text[end] == ':')) end++;
    statement s;
    s.parts = split(text.substr(0, end), '.');
    const std::string rest = trimmed(text.substr(end));
    const std::string &op = s.parts[0];
    if (op == "call") return call(rest, i);
    s.operands = split(rest, ',');
    if (op == "bra") {
        i.kind = instruction::BRANCH;
        jumps.push_back({k->code.size(), prefix_ + s.operands.at(0)});
    } else if (op == "exit" || op == "ret") {
        i.kind = op == "ret" && in_function >= 0 ? instruction::RETURN : instruction::EXIT;
        i.link = in_function;
    } else if (op == "trap") {
        i.run = [](warp &, const instruction &, uint32_t) { fail("trap"); };
    } else if (!(decode_arithmetic(*this, s, i) || decode_conversion(*this, s, i) || decode_memory(*this, s, i) ||
                 decode_warp(*this, s, i) || decode_async(*this, s, i) || decode_wgmma(*this, s, i) || decode_tcgen05(*this, s, i))) {
        fail("no instruction \"%s\"", s.opcode().c_str());
    }
    k->code.push_back(i);
}

void reader::body(const std::string &text, const std::string &prefix) {
    prefix_ = prefix;
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (isspace((unsigned char)c) || c == '{' || c == '}' || c == ';') {
            at++;
            continue;
        }
        if (text.compare(at, 5, ".loc ") == 0 || text.compare(at, 5, ".loc\t") == 0) {
            int number, at_line;
            if (sscanf(text.c_str() + at, ".loc %d %d", &number, &at_line) == 2) {
                const auto known = module_.files_.find(number);
                file = known == module_.files_.end() ? "" : known->second;
                line = at_line;
            }
            at = text.find('\n', at);
            continue;
        }
        size_t word = at;
        while (word < text.size() && is_word(text[word])) word++;
        if (word > at && text[word] == ':' && text[word + 1] != ':') {
            labels[prefix + text.substr(at, word - at)] = int(k->code.size());
            at = word + 1;
            continue;
        }
        const size_t end = text.find(';', at);
        if (end == std::string::npos) fail("a statement without an end");
        std::string one;
        for (const char letter : text.substr(at, end - at))
            one += isspace((unsigned char)letter) ? ' ' : letter;
        one = trimmed(one);
        at = end + 1;
        try {
            if (one.compare(0, 7, ".pragma") == 0) continue;
            if (one[0] == '.') {
                declare(one);
                continue;
            }
            for (const std::string &here : planted.instead_of(one)) {
                if (here[0] == '.') declare(here);
                else statement_(here);
            }
        } catch (const fault &f) {
            fail("%s: %s (%s:%d)", one.substr(0, 200).c_str(), f.what(), file.c_str(), line);
        }
    }
}

std::unique_ptr<kernel> reader::kernel_of_text() {
    const std::string &text = module_.text_;
    const size_t at = text.find(".entry " + k->name + "(");
    if (at == std::string::npos) fail("no entry %s", k->name.c_str());
    // Arrays without a size, of the file: they are the dynamic part.
    for (size_t e = text.find(".extern .shared"); e != std::string::npos; e = text.find(".extern .shared", e + 8)) {
        const size_t bracket = text.find("[]", e), begin = text.find_last_of(" \t", bracket) + 1;
        shared["dynamic " + text.substr(begin, bracket - begin)] = 0;
    }
    const size_t open = text.find('(', at), close = text.find(')', open), begin = text.find('{', close);
    parameters(text.substr(open + 1, close - open - 1));
    body(text.substr(begin, closing(text, begin) - begin), "");
    // The end of a kernel without a ret, and functions behind it.
    instruction last;
    last.kind = instruction::EXIT;
    last.text = "end";
    k->code.push_back(last);
    for (size_t n = 0; n < calls.size(); n++) {
        function &f = functions[calls[n].second];
        if (f.begin < 0) {
            const std::string head = ") " + calls[n].second;
            size_t from = text.find(head);
            size_t from_brace = 0;
            for (; from != std::string::npos; from = text.find(head, from + 1)) { // a declaration ends with ';'
                from_brace = text.find_first_of("{;", from);
                if (text[from_brace] == '{') break;
            }
            if (from == std::string::npos) fail("no function %s", calls[n].second.c_str());
            const size_t arguments = text.find('(', from), result = text.rfind('(', from);
            auto name_of = [](const std::string &declaration) { return declaration.substr(declaration.find_last_of(" \t") + 1); };
            const auto formals = split(text.substr(arguments + 1, text.find(')', arguments) - arguments - 1), ',');
            for (size_t a = 0; a < formals.size(); a++)
                names[name_of(formals[a])] = f.formals.at(a);
            names[name_of(trimmed(text.substr(result + 1, from - result - 1)))] = f.result;
            f.begin = int(k->code.size());
            in_function = f.link;
            body(text.substr(from_brace, closing(text, from_brace) - from_brace), calls[n].second + " ");
        }
        k->code[calls[n].first].target = f.begin;
    }
    for (const auto &jump : jumps) {
        const auto label = labels.find(jump.second);
        if (label == labels.end()) fail("no label %s", jump.second.c_str());
        k->code[jump.first].target = label->second;
    }
    planted.must_be_planted();
    std::vector<std::pair<int, int>> registers;
    for (const auto &name : names)
        if (!name.second.is_stored) registers.push_back({name.second.slot, name.second.bits});
    share_registers(*k, registers);
    return std::move(k);
}

std::unique_ptr<kernel> module::read(const std::string &name) const {
    std::unique_ptr<kernel> k = reader(*this, name).kernel_of_text();
    for (instruction &i : k->code) {
        const size_t begin = i.guard.slot < 0 ? 0 : i.text.find_first_of(" \t") + 1;
        auto is = [&](const char *what) { return i.text.compare(begin, strlen(what), what) == 0; };
        k->has_products |= is("wgmma.");
        k->has_tensor_memory |= is("tcgen05.");
        k->has_proxy |= is("wgmma.") || is("tcgen05.") || is("cp.async.bulk.");
        i.moves = is("mov.") && i.from[0].slot >= 0 && i.guard.slot < 0;
        i.is_store = is("st.");
        i.writes_list = !is("wgmma.") && !i.is_store;
    }
    return k;
}

} // namespace ptx
