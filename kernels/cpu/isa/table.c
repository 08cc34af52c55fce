#include "kernels/cpu/isa/isa.h"

const ft_op_table FT_ISA_NAME(cpu_ops) = {
#define FT_OP(name, what) .name = FT_ISA_NAME(name),
#include "kernels/ops.def"
#undef FT_OP
};
