#include "kernels/cpu/gemm_bf16_plan.h"

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }
static int64_t within(int64_t value, int64_t least, int64_t most) { return value < least ? least : at_most(value, most); }
static int64_t up_to(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

bool ft_gemm_is_bf16(const ft_gemm_args *args) { return args->a.dtype == FT_BF16 && !args->trans_a; }

bool ft_gemm_takes(const ft_gemm_args *args) {
    return args->a.dtype == FT_F32 || ft_gemm_is_bf16(args) || (args->a.dtype == FT_BF16 && !args->trans_b && args->c.dtype == FT_F32);
}

// Words: of B 3 MiB at most a thread, of A what a second-level cache holds beside a panel of B.
enum { MOST_OUTER = 512, MOST_OF_A = 96 * 2048, MOST_OF_B = 768 * 1024, MOST_ROWS = 96, MOST_COLUMNS = 768, SLACK = 8 };

ft_gemm_bf16_plan ft_gemm_bf16_plan_of(const ft_gemm_args *args) {
    enum { TILE = FT_GEMM_BF16_TILE, PANEL = FT_GEMM_BF16_PANEL, WORDS = FT_BF16_BLOCK };
    ft_gemm_bf16_plan p = {.m = args->c.rows, .n = args->c.cols, .k = args->a.cols};
    for (int i = 0; i < args->more_count; i++) p.m += args->more[i].c.rows;
    p.blocks = up_to(p.k, FT_BF16_BLOCK) / FT_BF16_BLOCK;
    p.outer = at_most(p.blocks, MOST_OUTER);
    const int64_t words = (p.outer > 0 ? p.outer : 1) * WORDS;
    p.rows = at_most(within(MOST_OF_A / words / TILE * TILE, TILE, MOST_ROWS), up_to(p.m, TILE));
    p.columns = at_most(within(MOST_OF_B / words / PANEL * PANEL, PANEL, MOST_COLUMNS), up_to(p.n, PANEL));
    // Tiles of fewer rows may not divide `rows`; rows of A lie a line further apart than a power of two.
    p.a_words = (size_t)((p.rows + SLACK) * (p.outer * WORDS + FT_GEMM_BF16_APART));
    p.b_words = (size_t)(p.columns * p.outer * WORDS);
    p.c_words = (size_t)((p.rows + SLACK) * PANEL);
    return p;
}
