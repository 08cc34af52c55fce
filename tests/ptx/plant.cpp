#include "tests/ptx/plant.h"

#include "tests/ptx/machine.h"
#include "tests/ptx/parse.h"

#include <cstdlib>
#include <cxxabi.h>
#include <sstream>
#include <utility>

namespace ptx {
namespace {

// Whoever looks for faults that were caught must not take these for them.
#define FT_NOT_PLANTED "not planted: "

std::vector<std::string> fields(const std::string &text, const std::string &between) {
    std::vector<std::string> all;
    size_t from = 0;
    for (size_t at; (at = text.find(between, from)) != std::string::npos; from = at + between.size())
        all.push_back(text.substr(from, at - from));
    all.push_back(text.substr(from));
    return all;
}

// A statement as it is put together again: predicate, opcode, operands.
struct taken_apart {
    std::string guard, opcode;
    std::vector<std::string> operands;
    explicit taken_apart(const std::string &text) {
        size_t at = 0;
        if (text[0] == '@') {
            at = text.find_first_of(" \t");
            guard = text.substr(0, at);
            at = text.find_first_not_of(" \t", at);
        }
        const size_t end = std::min(text.find_first_of(" \t", at), text.size());
        opcode = text.substr(at, end - at);
        operands = split(text.substr(end), ',');
    }
    std::string together() const {
        std::string all = guard.empty() ? opcode : guard + " " + opcode;
        for (size_t n = 0; n < operands.size(); n++)
            all += (n == 0 ? " " : ", ") + operands[n];
        return all;
    }
    std::string &operand(size_t n) {
        if (n >= operands.size()) fail(FT_NOT_PLANTED "no operand %zu", n);
        return operands[n];
    }
};

// "[%r1+16]" or "16", and so much more.
std::string more(const std::string &text, int64_t by) {
    if (text[0] != '[') return std::to_string(literal(text) + by);
    const size_t plus = text.find('+');
    const int64_t before = plus == std::string::npos ? 0 : literal(text.substr(plus + 1, text.size() - plus - 2));
    return text.substr(0, plus == std::string::npos ? text.size() - 1 : plus) + "+" + std::to_string(before + by) + "]";
}

void exchange(std::string &text) {
    const size_t open = text.rfind('{'), first = text.find(',', open), close = text.find('}', open);
    if (open == std::string::npos || first == std::string::npos || first > close)
        fail(FT_NOT_PLANTED "no registers in braces");
    const size_t second = std::min(text.find(',', first + 1), close);
    text = text.substr(0, open + 1) + text.substr(first + 1, second - first - 1) + ", " +
           text.substr(open + 1, first - open - 1) + text.substr(second);
}

} // namespace

plant::plant(const std::string &entry) {
    const char *given = getenv("FT_PTX_PLANT");
    if (given == nullptr) return;
    const auto parts = fields(given, " | ");
    if (parts.size() != 4) fail(FT_NOT_PLANTED "FT_PTX_PLANT=\"%s\" is not ENTRY | STATEMENT | WHICH | EDIT", given);
    int status = 0;
    char *plain = abi::__cxa_demangle(entry.c_str(), nullptr, nullptr, &status);
    applies_ = std::string(status == 0 ? plain : entry).find(parts[0]) != std::string::npos;
    free(plain);
    begins_ = parts[1], edit_ = parts[3];
    which_ = parts[2] == "all" ? 0 : int(literal(parts[2]));
}

std::vector<std::string> plant::instead_of(const std::string &text) {
    if (!applies_) return {text};
    taken_apart s(text);
    if (s.opcode.compare(0, begins_.size(), begins_) != 0 || (++seen_ != which_ && which_ != 0)) return {text};
    made_++;
    std::istringstream words(edit_);
    std::string what, op, rest;
    size_t n = 0, m = 0;
    words >> what;
    if (what == "drop") return {};
    if (what == "negate") {
        if (s.guard.empty()) fail(FT_NOT_PLANTED "no predicate");
        s.guard = s.guard[1] == '!' ? "@" + s.guard.substr(2) : "@!" + s.guard.substr(1);
    } else if (what == "text") {
        const size_t arrow = edit_.find(" =>");
        const std::string from = arrow == std::string::npos ? "" : edit_.substr(5, arrow - 5);
        const size_t at = text.find(from);
        if (from.empty() || at == std::string::npos) fail(FT_NOT_PLANTED "no such text in \"%s\"", text.c_str());
        return {text.substr(0, at) + (arrow + 4 < edit_.size() ? edit_.substr(arrow + 4) : "") +
                text.substr(at + from.size())};
    } else if (what == "operand" && words >> n >> op >> rest && (op == "=" || op == "+")) {
        s.operand(n) = op == "=" ? rest : more(s.operand(n), literal(rest));
    } else if (what == "compute" && words >> n >> op >> rest && op.size() > 2) {
        const std::string name = "planted" + std::to_string(made_), bits = op.substr(op.size() - 2);
        const std::string before = op + " " + name + ", " + s.operand(n) + ", " + rest;
        s.operand(n) = name;
        return {".reg .b" + bits + " " + name, before, s.together()};
    } else if (what == "one-lane") {
        if (!s.guard.empty()) fail(FT_NOT_PLANTED "it has a predicate");
        const std::string lane = "planted" + std::to_string(made_), is_first = "planted_first" + std::to_string(made_);
        s.guard = "@" + is_first;
        return {".reg .b32 " + lane, ".reg .pred " + is_first, "mov.u32 " + lane + ", %tid.x", "and.b32 " + lane + ", " + lane + ", 31",
                "setp.eq.s32 " + is_first + ", " + lane + ", 0", s.together()};
    } else if (what == "swap" && words >> n >> m) {
        std::swap(s.operand(n), s.operand(m));
    } else if (what == "exchange" && words >> n) {
        exchange(s.operand(n));
    } else if (what == "insert") {
        return {edit_.substr(7), text};
    } else {
        fail(FT_NOT_PLANTED "no edit \"%s\"", edit_.c_str());
    }
    return {s.together()};
}

void plant::must_be_planted() const {
    if (applies_ && made_ == 0)
        fail(FT_NOT_PLANTED "no statement %d of those that begin with \"%s\"; there are %d", which_, begins_.c_str(),
             seen_);
}

} // namespace ptx
