#include "kernels/cpu/isa/isa.h"
#include "kernels/ops/backend.h"

#define FT_OP(name, what) ft_status FT_ISA_NAME(name)(ft_device * device, const ft_##name##_args *args);
#include "kernels/ops/ops.def"
#undef FT_OP

extern const ft_op_table FT_ISA_NAME(cpu_ops);
const ft_op_table FT_ISA_NAME(cpu_ops) = {
#define FT_OP(name, what) .name = FT_ISA_NAME(name),
#include "kernels/ops/ops.def"
#undef FT_OP
};
