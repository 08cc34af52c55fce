#include "kernels/devices/self_check.h"

#include "base/arena.h"
#include "kernels/cuda/attention/path.h"
#include "kernels/cuda/opened.h"
#include "kernels/devices/verdict.h"
#include "kernels/half.h"
#include "kernels/ops/disentangled_attention.h"
#include "kernels/ops/geometry.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VERSION = 4 }; // of what is checked: another one forgets all verdicts

// Checked one after the other, each judged by itself: disentangled attention's two with the other one on mma.sync.
// Tensor memory, on other chips, has a verdict of its own.
typedef enum part { STANDARD, BACKWARD, FORWARD, PARTS, TENSOR_MEMORY = PARTS } part;

// ---- one case ------------------------------------------------------------------------------------------------------

// A block of 128 rows and one that is nearly empty, two tiles of keys, or so many that buffers are filled again; a sequence of three behind it, whose
// rows follow in memory.
enum { SEQUENCES = 2, SHORT = 3, BOUNDS_BYTES = (SEQUENCES + 1) * (int)sizeof(int32_t), ROOM = 1 << 21 };
static const int32_t slots[SEQUENCES + 1] = {3, 1, 0};
static const ft_step_state step = {.seed = 7, .step = 3, .learning_rate = 1e-3f, .loss_factor = 0.5f, .loss_scale = 1};

// Positions of disentangled attention: five distances each share a row of the tables.
enum { REACH = 129, POSITIONS = 2 * REACH / 5 + 1, POSITIONS_BYTES = (2 * REACH + 1) * (int)sizeof(int32_t) };

// Every instance once; dropout, which is none's own, in some. queries, keys: of the first sequence. The three buffers of warpgroups' forward have tiles
// of 128 keys, of 64 where heads of 128 are causal: with heads of either width, causal or not, one case fills some twice.
typedef struct attention_check {
    ft_dtype dtype;
    int32_t head_dim, heads, queries, keys;
    bool shared; // keys and values of all heads, and causal
    float dropout;
    bool positions; // of disentangled attention
} attention_check;
static const attention_check checks[] = {
    {FT_BF16, 64, 1, 130, 130, false, 0, false},   {FT_F16, 64, 1, 130, 520, false, 0.1f, false}, {FT_BF16, 64, 2, 450, 450, true, 0.1f, false},
    {FT_F16, 64, 2, 130, 130, true, 0, false},     {FT_BF16, 128, 1, 130, 520, false, 0, false},  {FT_F16, 128, 1, 130, 130, false, 0.1f, false},
    {FT_BF16, 128, 2, 130, 130, true, 0, false},   {FT_F16, 128, 2, 300, 300, true, 0, false},    {FT_BF16, 64, 1, 130, 130, false, 0.1f, true},
    {FT_F16, 64, 2, 130, 130, false, 0, true},
};

// Where things lie in the buffer: what is read, then what is written.
typedef struct places {
    unsigned char *step, *of_queries, *of_keys, *slots, *positions, *qkv, *dout, *tables, *results, *lse, *gradients, *dtables, *scratch;
    size_t qkv_bytes, out_bytes, lse_bytes, gradient_bytes, tables_bytes, dtables_bytes, scratch_bytes, results_bytes;
} places;

static int64_t hidden_of(const attention_check *c) { return (int64_t)c->heads * c->head_dim; }
static int64_t narrow_of(const attention_check *c) { return c->shared ? c->head_dim : hidden_of(c); }
static int64_t columns_of(const attention_check *c) { return hidden_of(c) + 2 * narrow_of(c); }
static int64_t queries_of(const attention_check *c) { return c->queries + SHORT; }
static int64_t keys_of(const attention_check *c) { return c->keys + SHORT; } // in whose rows queries lie too, the first of them

static places place_all(const attention_check *c, unsigned char *first) {
    unsigned char *at = first;
    places p = {.qkv_bytes = (size_t)(keys_of(c) * columns_of(c)) * sizeof(uint16_t),
                .out_bytes = (size_t)(queries_of(c) * hidden_of(c)) * sizeof(uint16_t),
                .lse_bytes = (size_t)(queries_of(c) * c->heads) * sizeof(float)};
    p.gradient_bytes = p.qkv_bytes;
    p.tables_bytes = c->positions ? (size_t)(2 * POSITIONS * hidden_of(c)) * sizeof(uint16_t) : 0; // for keys, for queries
    p.dtables_bytes = c->positions ? (size_t)(2 * POSITIONS * hidden_of(c)) * sizeof(float) : 0;
    const struct {
        unsigned char **place;
        size_t bytes;
    } all[] = {{&p.step, sizeof step},         {&p.of_queries, BOUNDS_BYTES}, {&p.of_keys, BOUNDS_BYTES}, {&p.slots, sizeof slots},
               {&p.positions, POSITIONS_BYTES}, {&p.qkv, p.qkv_bytes},      {&p.dout, p.out_bytes},
               {&p.tables, p.tables_bytes},    {&p.results, p.out_bytes},  {&p.lse, p.lse_bytes},
               {&p.gradients, p.gradient_bytes}, {&p.dtables, p.dtables_bytes}, {&p.scratch, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].place = at;
        at += ft_cuda_aligned(all[i].bytes);
    }
    p.results_bytes = (size_t)(p.scratch - p.results);
    p.scratch_bytes = ROOM - (size_t)(p.scratch - first);
    return p;
}

// Scores apart by about 1.3: neither all keys alike nor one alone.
static void draw(ft_dtype dtype, uint16_t *out, size_t bytes, uint64_t *state) {
    for (size_t i = 0; i < bytes / sizeof *out; i++) {
        const float number = (float)((double)(ft_splitmix64(++*state) >> 40) * 0x1p-22 - 2.0);
        ft_narrow(dtype, &number, &out[i], 1);
    }
}

static ft_status run_positions(ft_device *d, const attention_check *c, const places *p, const ft_attention_forward_args *f,
                               const ft_attention_backward_args *b) {
    const int64_t hidden = hidden_of(c);
    const ft_tensor tables = ft_matrix(p->tables, 2 * POSITIONS, hidden, c->dtype),
                    gradients = ft_matrix(p->dtables, 2 * POSITIONS, hidden, FT_F32);
    const ft_disentangled_shape shape = {
        .attention = f->shape, .reach = REACH, .slots = (const int32_t *)(void *)p->positions};
    const ft_disentangled_attention_forward_args forward = {.shape = shape,
                                                            .q = f->q,
                                                            .k = f->k,
                                                            .v = f->v,
                                                            .pos_key = ft_rows(tables, 0, POSITIONS),
                                                            .pos_query = ft_rows(tables, POSITIONS, POSITIONS),
                                                            .out = f->out,
                                                            .lse = f->lse};
    ft_disentangled_attention_backward_args backward = {.shape = shape,
                                                        .q = f->q,
                                                        .k = f->k,
                                                        .v = f->v,
                                                        .pos_key = forward.pos_key,
                                                        .pos_query = forward.pos_query,
                                                        .out = f->out,
                                                        .lse = f->lse,
                                                        .dout = b->dout,
                                                        .dq = b->dq,
                                                        .dk = b->dk,
                                                        .dv = b->dv,
                                                        .dpos_key = ft_rows(gradients, 0, POSITIONS),
                                                        .dpos_query = ft_rows(gradients, POSITIONS, POSITIONS),
                                                        .workspace = b->workspace};
    FT_TRY(d->functions->fill(d, p->dtables, 0, p->dtables_bytes)); // they are added to
    FT_TRY(FT_RUN(d, disentangled_attention_forward, &forward));
    return FT_RUN(d, disentangled_attention_backward, &backward);
}

// Both directions by the path that cuda->warpgroups says, on memory that is NaN before it is written.
static ft_status run(ft_cuda *cuda, const attention_check *c, const places *p, void *results) {
    ft_device *d = &cuda->device;
    const int64_t hidden = hidden_of(c), narrow = narrow_of(c), cols = columns_of(c);
    const ft_tensor qkv = ft_matrix(p->qkv, keys_of(c), cols, c->dtype), gradients = ft_matrix(p->gradients, keys_of(c), cols, c->dtype);
    const ft_attention_forward_args forward = {
        .shape = {.heads = c->heads,
                  .head_dim = c->head_dim,
                  .sequences = SEQUENCES,
                  .max_queries = c->queries,
                  .max_keys = c->keys,
                  .cu_queries = (const int32_t *)(void *)p->of_queries,
                  .cu_keys = (const int32_t *)(void *)p->of_keys,
                  .scale = 1 / sqrtf((float)c->head_dim * (c->positions ? 3 : 1)),
                  .causal = c->shared,
                  .key_heads = c->shared ? 1 : 0,
                  .dropout = {.probability = c->dropout,
                              .layer = 1,
                              .site = FT_SITE_ATTENTION,
                              .step = (const ft_step_state *)(void *)p->step,
                              .sequence_slot = (const int32_t *)(void *)p->slots}},
        .q = ft_rows(ft_columns(qkv, 0, hidden), 0, queries_of(c)),
        .k = ft_columns(qkv, hidden, narrow),
        .v = ft_columns(qkv, hidden + narrow, narrow),
        .out = ft_matrix(p->results, queries_of(c), hidden, c->dtype),
        .lse = ft_matrix(p->lse, queries_of(c), c->heads, FT_F32)};
    const ft_attention_backward_args backward = {.shape = forward.shape,
                                                 .q = forward.q,
                                                 .k = forward.k,
                                                 .v = forward.v,
                                                 .out = forward.out,
                                                 .lse = forward.lse,
                                                 .dout = ft_matrix(p->dout, queries_of(c), hidden, c->dtype),
                                                 .dq = ft_rows(ft_columns(gradients, 0, hidden), 0, queries_of(c)),
                                                 .dk = ft_columns(gradients, hidden, narrow),
                                                 .dv = ft_columns(gradients, hidden + narrow, narrow),
                                                 .workspace = {p->scratch, p->scratch_bytes}};
    FT_TRY(d->functions->fill(d, p->results, 0xFF, p->results_bytes));
    if (c->positions) {
        FT_TRY(run_positions(d, c, p, &forward, &backward));
    } else {
        FT_TRY(FT_RUN(d, attention_forward, &forward));
        FT_TRY(FT_RUN(d, attention_backward, &backward));
    }
    FT_TRY(d->functions->download(d, results, p->results, p->results_bytes));
    return d->functions->sync(d);
}

// ---- judging -------------------------------------------------------------------------------------------------------

static float number_of(ft_dtype dtype, const unsigned char *matrix, int64_t i) {
    uint16_t bits;
    float x;
    memcpy(&bits, matrix + (size_t)i * sizeof bits, sizeof bits);
    ft_widen(dtype, &bits, &x, 1);
    return x;
}

// The worst of `rows` rows of a head in columns [first, first + width), as a part of that row of `want`, or of a quarter of the
// mean row where it is less: a gradient is a difference of sums and may be next to nothing. Infinite where one is no
// number.
static double worst_row(const attention_check *c, const unsigned char *got, const unsigned char *want, int64_t rows,
                        int64_t stride, int64_t first, int64_t width) {
    const int64_t heads = width / c->head_dim;
    double mean = 0, worst = 0;
    for (int judging = 0; judging < 2; judging++)
        for (int64_t i = 0; i < rows * heads; i++) {
            const int64_t at = i / heads * stride + first + i % heads * c->head_dim;
            double square = 0, off = 0;
            for (int64_t e = at; e < at + c->head_dim; e++) {
                const double y = (double)number_of(c->dtype, want, e),
                             difference = (double)number_of(c->dtype, got, e) - y;
                square += y * y;
                off += difference * difference;
            }
            if (!judging)
                mean += square / (double)(rows * heads);
            else
                worst = fmax(worst, isfinite(off) ? sqrt(off / fmax(square, mean / 16)) : INFINITY);
        }
    return worst;
}

// Of the gradients of both tables, which are sums in fp32, as a part of all of them.
static double off_tables(const attention_check *c, const unsigned char *got, const unsigned char *want) {
    double square = 0, off = 0;
    for (size_t i = 0; i < (size_t)(2 * POSITIONS * hidden_of(c)); i++) {
        float x, y;
        memcpy(&x, got + i * sizeof x, sizeof x);
        memcpy(&y, want + i * sizeof y, sizeof y);
        square += (double)y * (double)y;
        off += ((double)x - (double)y) * ((double)x - (double)y);
    }
    return isfinite(off) ? sqrt(off / square) : INFINITY;
}

static double worst_lse(const unsigned char *got, const unsigned char *want, int64_t count) {
    double worst = 0;
    for (size_t i = 0; i < (size_t)count; i++) {
        float x, y;
        memcpy(&x, got + i * sizeof x, sizeof x);
        memcpy(&y, want + i * sizeof y, sizeof y);
        worst = fmax(worst, isfinite(x) ? fabs((double)x - (double)y) : INFINITY);
    }
    return worst;
}

// Both paths round probabilities and results to 16 bits, each off by 0.7 units in the last place forward and 0.8
// backward where a card is judged by the CPU (benchmarks/gpu/gpu_ops_attention.c); so they may be twice as far apart.
// `what` is "" where they are not.
static void judge(const attention_check *c, const places *p, const unsigned char *got, const unsigned char *want,
                  char what[FT_VERDICT_TEXT]) {
    const int64_t hidden = hidden_of(c), narrow = narrow_of(c), cols = columns_of(c), queries = queries_of(c), keys = keys_of(c);
    const size_t lse = (size_t)(p->lse - p->results), gradients = (size_t)(p->gradients - p->results),
                 tables = (size_t)(p->dtables - p->results);
    const double unit = c->dtype == FT_BF16 ? 0x1p-7 : 0x1p-10;
    const struct {
        const char *name;
        double worst, allowed;
    } parts[] = {{"out", worst_row(c, got, want, queries, hidden, 0, hidden), 2 * unit},
                 {"lse", worst_lse(got + lse, want + lse, queries * c->heads), 1e-3},
                 {"dq", worst_row(c, got + gradients, want + gradients, queries, cols, 0, hidden), 4 * unit},
                 {"dk", worst_row(c, got + gradients, want + gradients, keys, cols, hidden, narrow), 4 * unit},
                 {"dv", worst_row(c, got + gradients, want + gradients, keys, cols, hidden + narrow, narrow), 4 * unit},
                 {"the tables' gradient", c->positions ? off_tables(c, got + tables, want + tables) : 0, unit}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && what[0] == '\0'; i++)
        if (!(parts[i].worst <= parts[i].allowed))
            snprintf(what, FT_VERDICT_TEXT, "%s of %s, heads of %d%s, is %.2g off, %.2g is rounding", parts[i].name,
                     ft_dtype_name(c->dtype), c->head_dim,
                     c->shared      ? ", causal"
                     : c->positions ? ", positions"
                                    : "",
                     parts[i].worst,
                     parts[i].allowed);
}

static void use(ft_cuda *cuda, bool standard, bool backward, bool forward) {
    cuda->warpgroups = standard;
    cuda->disentangled_warpgroups = backward;
    cuda->disentangled_forward_warpgroups = forward;
}

static ft_status check_one(ft_cuda *cuda, const attention_check *c, part which, unsigned char *on_device,
                           unsigned char *on_host, char what[FT_VERDICT_TEXT]) {
    ft_device *d = &cuda->device;
    const places p = place_all(c, on_device);
    uint64_t state = 1;
    const int32_t of_queries[SEQUENCES + 1] = {0, c->queries, c->queries + SHORT}, of_keys[SEQUENCES + 1] = {0, c->keys, c->keys + SHORT};
    int32_t position_of[2 * REACH + 1]; // until the copies are done
    uint16_t *drawn = (uint16_t *)(void *)on_host;
    unsigned char *got = on_host, *want = on_host + ROOM;
    FT_TRY(d->functions->upload(d, p.step, &step, sizeof step));
    FT_TRY(d->functions->upload(d, p.of_queries, of_queries, sizeof of_queries));
    FT_TRY(d->functions->upload(d, p.of_keys, of_keys, sizeof of_keys));
    FT_TRY(d->functions->upload(d, p.slots, slots, sizeof slots));
    draw(c->dtype, drawn, p.qkv_bytes + p.out_bytes + p.tables_bytes, &state);
    FT_TRY(d->functions->upload(d, p.qkv, drawn, p.qkv_bytes));
    FT_TRY(d->functions->upload(d, p.dout, on_host + p.qkv_bytes, p.out_bytes));
    if (c->positions) {
        for (int32_t i = 0; i <= 2 * REACH; i++)
            position_of[i] = i / 5;
        FT_TRY(d->functions->upload(d, p.positions, position_of, POSITIONS_BYTES));
        FT_TRY(d->functions->upload(d, p.tables, on_host + p.qkv_bytes + p.out_bytes, p.tables_bytes));
    }
    FT_TRY(d->functions->sync(d)); // what was drawn is written over
    use(cuda, which == STANDARD, which == BACKWARD, which == FORWARD);
    ft_status status = run(cuda, c, &p, got);
    use(cuda, false, false, false);
    cuda->no_tensor_memory = true;
    if (status == FT_OK) status = run(cuda, c, &p, want);
    cuda->no_tensor_memory = false;
    if (status == FT_OK) judge(c, &p, got, want, what);
    return status;
}

// Its cases: those with positions, or those without; tensor memory has full attention alone.
static bool is_case_of(const attention_check *c, part which) {
    return which == TENSOR_MEMORY ? !c->positions && !c->shared : c->positions == (which != STANDARD);
}
static ft_status check_all(ft_cuda *cuda, part which, char what[FT_VERDICT_TEXT]) {
    ft_device *d = &cuda->device;
    void *on_device = NULL;
    unsigned char *on_host = ft_calloc(2, ROOM, "the results of a check");
    if (on_host == NULL) return FT_NO_MEMORY;
    ft_status status = d->functions->buffer_alloc(d, ROOM, &on_device);
    for (size_t i = 0; status == FT_OK && i < sizeof checks / sizeof *checks && what[0] == '\0'; i++)
        if (is_case_of(&checks[i], which))
            status = check_one(cuda, &checks[i], which, on_device, on_host, what);
    if (on_device != NULL) d->functions->buffer_free(d, on_device, ROOM);
    free(on_host);
    return status;
}

// ---- the check -----------------------------------------------------------------------------------------------------

// What a verdict begins with where a part may not be used, and whose the rest is.
static const char good[] = "good";
static const struct {
    const char *begins, *of;
    bool backward, forward; // may be used; standard attention may
} kinds[] = {{"good but disentangled backward: ", "disentangled attention's backward pass", false, true},
             {"good but disentangled forward: ", "disentangled attention's forward pass", true, false},
             {"good but disentangled: ", "disentangled attention", false, false}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void verdict_of(char text[FT_VERDICT_TEXT], char why[PARTS][FT_VERDICT_TEXT]) {
    const bool backward = why[BACKWARD][0] == '\0', forward = why[FORWARD][0] == '\0';
    const char *begins = "", *rest = why[STANDARD][0] != '\0' ? why[STANDARD] : good;
    for (int i = 0; why[STANDARD][0] == '\0' && i < KINDS; i++)
        if (kinds[i].backward == backward && kinds[i].forward == forward) {
            begins = kinds[i].begins;
            rest = backward ? why[FORWARD] : why[BACKWARD];
        }
    snprintf(text, FT_VERDICT_TEXT, "%s%.160s", begins, rest);
}

// Takes a verdict at its word, and tells of what it forbids.
static void obey(ft_cuda *cuda, const ft_verdict *v, const char *text) {
    if (strcmp(text, good) == 0) {
        use(cuda, true, true, true);
        return;
    }
    const char *of = "attention", *why = strcmp(text, FT_VERDICT_BEGUN) == 0 ? FT_VERDICT_NEVER_ENDED : text;
    for (int i = 0; i < KINDS; i++)
        if (strncmp(text, kinds[i].begins, strlen(kinds[i].begins)) == 0) {
            use(cuda, true, kinds[i].backward, kinds[i].forward);
            of = kinds[i].of;
            why = text + strlen(kinds[i].begins);
        }
    snprintf(cuda->remark, sizeof cuda->remark,
             "%s on warpgroups of %s is left alone, mma.sync computes it: %s%s%.*s%s", of, cuda->name, why,
             v->path[0] != '\0' ? " (" : "", 120, v->path, v->path[0] != '\0' ? ")" : "");
}

// A part that was refused has an outcome like any other where the device works on; else there is an error.
static ft_status check_part(ft_cuda *cuda, part which, char why[FT_VERDICT_TEXT], bool *forget) {
    ft_error error;
    why[0] = '\0';
    const ft_status status = check_all(cuda, which, why);
    if (status == FT_OK) return FT_OK;
    ft_error_save(&error);
    snprintf(why, FT_VERDICT_TEXT, "its check failed: %.140s", ft_error_message());
    if (status == FT_NO_MEMORY) *forget = true; // says nothing of the path
    if (status == FT_NO_MEMORY || cuda->device.functions->sync(&cuda->device) == FT_OK) {
        ft_error_clear();
        return FT_OK;
    }
    ft_error_restore(&error);
    ft_hint("this was the check of attention on %s; a run from here on goes without, as with FTENGINE_ATTENTION=mma",
            which == TENSOR_MEMORY ? "tensor memory (tcgen05)" : "warpgroups");
    return status;
}

// All parts; in the file stands at any time what holds where this process goes no further.
static ft_status check_parts(ft_cuda *cuda, ft_verdict *v, char text[FT_VERDICT_TEXT]) {
    char why[PARTS][FT_VERDICT_TEXT] = {"", FT_VERDICT_NEVER_ENDED, FT_VERDICT_NEVER_ENDED};
    bool forget = false;
    ft_verdict_write(v, FT_VERDICT_BEGUN);
    for (part which = STANDARD; which < PARTS && why[STANDARD][0] == '\0'; which++) {
        if (which != STANDARD) ft_verdict_write(v, forget ? FT_VERDICT_BEGUN : text); // want of memory is not to last
        const ft_status status = check_part(cuda, which, why[which], &forget);
        verdict_of(text, why);
        if (status == FT_OK) continue;
        ft_verdict_write(v, text);
        return status;
    }
    ft_verdict_write(v, forget ? "" : text);
    return FT_OK;
}

static void subject_of(const ft_cuda *cuda, char *out, size_t size) {
    const ft_cuda_module *module = &cuda->kernels->module;
    struct stat file = {.st_size = 0};
    (void)stat(module->path, &file);
    snprintf(out, size, "%d %s %s driver %d %s module %s %lld %lld.%09ld", VERSION, cuda->device.place,
             cuda->device.description, cuda->driver->version, cuda->driver->release, module->path,
             (long long)file.st_size, (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

static void refuse_tensor_memory(ft_cuda *cuda, const char *why, const char *path) {
    cuda->no_tensor_memory = true;
    snprintf(cuda->remark, sizeof cuda->remark, "attention on tensor memory (" FT_ATTENTION_PATH_NAME "=tcgen05) is left alone on %s, mma.sync computes it: %s%s%.*s%s",
             cuda->name, why, path[0] != '\0' ? " (" : "", 120, path, path[0] != '\0' ? ")" : "");
}

// Of who asks for it: a wish that cannot be met, or that gives other numbers, is not met, and is told of.
static ft_status check_tensor_memory(ft_cuda *cuda) {
    const int capability = cuda->device.target.compute_capability;
    const char *targets = cuda->kernels->module.table->targets;
    char subject[1200], why[FT_VERDICT_TEXT];
    ft_verdict v;
    bool forget = false;
    if (!ft_attention_has_tensor_memory(capability, targets)) {
        if (capability == 100 || capability == 103)
            snprintf(why, sizeof why, "these kernels (%.100s) have no code for it, CUDA 13 builds it for 100f", targets);
        else snprintf(why, sizeof why, "compute capability 10.0 and 10.3 have it, this is %d.%d", capability / 10, capability % 10);
        refuse_tensor_memory(cuda, why, "");
        return FT_OK;
    }
    subject_of(cuda, subject, sizeof subject);
    ft_verdict_open(&v, "tensor-memory", subject);
    ft_status status = FT_OK;
    if (v.text[0] == '\0') {
        ft_verdict_write(&v, FT_VERDICT_BEGUN);
        status = check_part(cuda, TENSOR_MEMORY, why, &forget);
        if (why[0] == '\0') snprintf(why, sizeof why, "%s", good);
        ft_verdict_write(&v, forget ? "" : why);
    } else snprintf(why, sizeof why, "%s", strcmp(v.text, FT_VERDICT_BEGUN) == 0 ? FT_VERDICT_NEVER_ENDED : v.text);
    if (status == FT_OK && strcmp(why, good) != 0) refuse_tensor_memory(cuda, why, v.path);
    ft_verdict_close(&v);
    return status;
}

ft_status ft_cuda_self_check(ft_cuda *cuda) {
    const ft_attention_path asked = ft_attention_path_asked();
    char subject[1200], text[FT_VERDICT_TEXT];
    ft_verdict v;
    if (asked == FT_PATH_TCGEN05) return check_tensor_memory(cuda);
    if (cuda->device.target.compute_capability != 90 || strstr(cuda->kernels->module.table->targets, "sm_90a") == NULL)
        return FT_OK;
    if (asked != FT_PATH_UNNAMED && asked != FT_PATH_AUTO) return FT_OK;
    subject_of(cuda, subject, sizeof subject);
    ft_verdict_open(&v, "attention", subject);
    snprintf(text, sizeof text, "%s", v.text);
    const ft_status status = v.text[0] == '\0' ? check_parts(cuda, &v, text) : FT_OK;
    if (status == FT_OK) obey(cuda, &v, text);
    ft_verdict_close(&v);
    return status;
}
