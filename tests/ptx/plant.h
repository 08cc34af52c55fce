// plant.h - a fault that somebody plants into a kernel's text, to see that the machine or a test's figures find it
// (planted.txt).
//
// FT_PTX_PLANT="ENTRY | STATEMENT | WHICH | EDIT". ENTRY: a part of the demangled name. STATEMENT: how it begins,
// behind its predicate. WHICH: the first is 1, or all. EDIT:
//   drop              the statement is not there
//   negate            its predicate is the other way round
//   text A => B       A in it becomes B, which may be nothing
//   operand N = X     operand N (the first is 0) becomes X
//   operand N + K     K is added to a number, or to what is added to an address
//   compute N OP K    OP (xor.b32, add.s64...) of it and K takes the place of operand N
//   one-lane          the first lane of a warp does it, and no other
//   swap N M          operands trade places
//   exchange N        the first two registers in the innermost braces of operand N trade places
//   insert X          X stands in front of it
#ifndef FT_PTX_PLANT_H
#define FT_PTX_PLANT_H

#include <string>
#include <vector>

namespace ptx {

class plant {
  public:
    explicit plant(const std::string &entry); // of the kernel that is read; takes what the environment says
    // The statements that stand in place of this one.
    std::vector<std::string> instead_of(const std::string &statement);
    // A fault where nothing was found, or the edit does not fit: a table that is out of date must not pass for a fault
    // that was caught.
    void must_be_planted() const;

  private:
    bool applies_ = false;
    std::string begins_, edit_;
    int which_ = 0, seen_ = 0, made_ = 0; // 0: all
};

} // namespace ptx
#endif
