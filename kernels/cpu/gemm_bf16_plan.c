#include "kernels/cpu/gemm_bf16_plan.h"

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }
static int64_t at_least(int64_t value, int64_t limit) { return value > limit ? value : limit; }
static int64_t up_to(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

bool ft_gemm_is_bf16(const ft_gemm_args *args) { return args->a.dtype == FT_BF16 && !args->trans_a; }

bool ft_gemm_takes(const ft_gemm_args *args) {
    return args->a.dtype == FT_F32 || ft_gemm_is_bf16(args) ||
           (args->a.dtype == FT_BF16 && !args->trans_b && args->c.dtype == FT_F32);
}

// B takes 4 MiB at most a thread. Tiles of fewer rows than TILE may not divide the rows: SLACK.
enum { MOST_OF_B = 1024 * 1024, MOST_INNER = 12, SLACK = 8, FEW_ROWS = FT_GEMM_BF16_PANEL };

ft_gemm_bf16_plan ft_gemm_bf16_plan_of(const ft_gemm_args *args) {
    enum { TILE = FT_GEMM_BF16_TILE, PANEL = FT_GEMM_BF16_PANEL, ROWS = FT_GEMM_BF16_ROWS };
    ft_gemm_bf16_plan p = {.m = args->c.rows, .n = args->c.cols, .k = args->a.cols};
    for (int i = 0; i < args->more_count; i++)
        p.m += args->more[i].c.rows;
    const int64_t longer = args->trans_b ? at_least(p.n, p.m) : p.m;
    p.swapped = args->trans_b && args->more_count == 0 && p.m <= FEW_ROWS && p.n > p.m;
    if (p.swapped) p.m = args->c.cols, p.n = args->c.rows;
    p.blocks = up_to(p.k, FT_BF16_BLOCK) / FT_BF16_BLOCK;
    p.inner = at_most(p.blocks, MOST_INNER);
    const int64_t words = at_least(p.blocks * FT_BF16_BLOCK, 1), part = PANEL * p.inner * FT_BF16_BLOCK;
    const bool fits = words * PANEL <= MOST_OF_B;
    p.rows = at_most(ROWS, up_to(p.m, TILE));
    p.packs_b = p.m > ROWS && fits;
    const int64_t most =
        p.packs_b ? at_most(MOST_OF_B / words / PANEL * PANEL, FT_GEMM_BF16_COLUMNS) : FT_GEMM_BF16_COLUMNS;
    const int64_t parts = at_least(up_to(p.n, most) / most, 1); // nearly equal ones: rows are packed anew for each
    p.columns = up_to(at_least(p.n, 1), parts * PANEL) / parts;
    // More rows of C never want less scratch, and those of a swapped product are few.
    const int64_t rows = at_most(ROWS, up_to(longer, TILE)) + SLACK,
                  swapped_b = args->trans_b && fits ? words * PANEL : 0;
    p.a_words = (size_t)(rows * (p.inner * FT_BF16_BLOCK + FT_GEMM_BF16_APART));
    p.b_words = (size_t)at_least(p.packs_b ? p.columns * words : part, swapped_b);
    p.c_words = (size_t)(rows * p.columns);
    return p;
}
