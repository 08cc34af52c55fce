// parse.h - the text that nvcc -ptx writes, as kernels of machine.h.
#ifndef FT_PTX_PARSE_H
#define FT_PTX_PARSE_H

#include "tests/ptx/machine.h"

namespace ptx {

// A file, of which kernels are read when they are asked for.
class module {
  public:
    explicit module(const std::string &path); // fault: it cannot be read
    // Names of entries, demangled, as the host's compiler names the same functions; one may stand for several files' own.
    const std::vector<std::pair<std::string, std::string>> &entries() const { return entries_; } // demangled, as it stands in the text
    std::unique_ptr<kernel> read(const std::string &name) const;
    const std::string &path() const { return path_; }

  private:
    friend class reader;
    std::string path_, text_;
    std::vector<std::pair<std::string, std::string>> entries_;
    std::map<int, std::string> files_; // of .loc
};

// What handlers' files ask when they take a statement apart. `parts`: the opcode at its dots; `operands`: as they stand.
struct statement {
    std::vector<std::string> parts, operands;
    bool has(const char *part) const;
    type last() const;
    std::string opcode() const;
};
type type_of(const std::string &name); // NONE: no type
int bits_of(type t);                   // of a register that holds it
int bytes_of(type t);                  // in memory

class reader; // of a kernel
// A register, immediate or symbol as a source of this type. A register of another width is a fault, but where `any_width`.
operand source(reader &r, const std::string &text, type t, bool any_width = false);
operand target(reader &r, const std::string &text, type t, bool any_width = false);
std::vector<operand> braces(reader &r, const std::string &text, type t, bool targets = false, bool any_width = false); // {a, b}, or a
operand address(reader &r, const std::string &text, int64_t *offset, bool is_shared); // [base + offset]
bool parameter_of_call(reader &r, const std::string &text, operand *found); // "[param0+0]": a register of its own here
int64_t literal(const std::string &text);
std::vector<std::string> split(const std::string &text, char at); // outside of braces and brackets, trimmed

// Registers (slots and bits) that are not alive together get one place (registers.cpp).
void share_registers(kernel &k, const std::vector<std::pair<int, int>> &registers);

// Each takes its opcodes, or says false.
bool decode_arithmetic(reader &r, const statement &s, instruction &i);
bool decode_conversion(reader &r, const statement &s, instruction &i);
bool decode_memory(reader &r, const statement &s, instruction &i);
bool decode_warp(reader &r, const statement &s, instruction &i);
bool decode_async(reader &r, const statement &s, instruction &i);
bool decode_wgmma(reader &r, const statement &s, instruction &i);
bool decode_tcgen05(reader &r, const statement &s, instruction &i);

} // namespace ptx
#endif
