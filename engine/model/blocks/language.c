// language.c - the head of a language model: of every row that is read (ft_batch.read_row) the logits of all words, h W^T, and their loss.
//
// Logits of a large vocabulary are the largest tensor there could be, so no more of them exist than those of `loss_rows` rows: loss, gradient of
// the rows and, where it is trained, of W come chunk by chunk, in the order of rows, which is the order of all sums in any case: so the
// number of rows changes no bit on the CPU. Forward and backward of a chunk are one; only the gradient of the rows waits. W may be the table
// of word embeddings (tie_word_embeddings).
#include "engine/memory/loop.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/gradients/gradients.h"

void ft_language_build(ft_builder *b) {
    ft_model *m = b->model;
    m->head[0] = (ft_linear){.weight = -1, .bias = -1, .inputs = m->hidden, .outputs = m->vocabulary, .parts = 1, .lead = m->vocabulary};
    if (!b->config->tied) m->head[0].weight = ft_build_matrix(b, FT_LANGUAGE_HEAD, m->vocabulary, m->hidden);
}

void ft_language_tie(ft_builder *b) {
    ft_model *m = b->model;
    if (!b->config->tied || b->failed) return;
    m->head[0].weight = m->word;
    ft_parameters_share(&m->parameters, m->word, ft_backward_point(0, 0));
}

// A micro-batch of rows [first, first + count) alone, as far as the head looks at it.
typedef struct chunk {
    ft_batch batch;
    ft_pass pass;
} chunk;

static int32_t most_rows(const ft_pass *pass) {
    const int32_t reads = pass->capacity.reads, rows = pass->model->loss_rows;
    return rows < reads ? rows : reads;
}

static void cut(const ft_pass *pass, int32_t first, int32_t count, chunk *c) {
    const bool last = first + count == pass->batch->reads;
    c->batch = *pass->batch;
    c->pass = *pass;
    c->batch.reads = count;
    c->batch.label += first;
    if (!last) c->batch.filler = 0;
    c->pass.batch = &c->batch;
    c->pass.capacity.reads = most_rows(pass);
}

static ft_status gather_rows(ft_pass *pass, ft_tensor x, ft_tensor *read) {
    FT_TRY(ft_pass_tensor(pass, FT_ROWS_READ, x.cols, FT_MEM_ACTIVATIONS, -1, "rows that are read", read));
    return ft_pass_gather(pass, pass->batch->read_row, x, *read);
}

static ft_tensor part_of(ft_tensor numbers, int32_t first, int32_t count) { return ft_columns(numbers, first, count); }

static ft_status train_chunk(chunk *c, ft_tensor x, ft_tensor losses, ft_tensor dx) {
    ft_pass *pass = &c->pass;
    const ft_linear *head = &pass->model->head[0];
    ft_tensor logits, own, dlogits;
    FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_READ, head->outputs, FT_MEM_ACTIVATIONS, -1, "logits of a chunk", &logits));
    FT_TRY(ft_linear_product(pass, FT_ROWS_READ, head, x, ft_absent(), logits));
    FT_TRY(ft_pass_loss(pass, logits, losses));
    FT_TRY(ft_pass_rounded(pass, FT_ROWS_READ, logits, "logit gradient of a chunk", &own, &dlogits));
    if (own.data != NULL) ft_pass_free(pass, &logits);
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_READ, head, dlogits, x));
    if (dx.data != NULL) FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, head, dlogits, false, dx));
    ft_pass_free(pass, own.data != NULL ? &own : &logits);
    return FT_OK;
}

// From the gradient of the rows that are read to that of all.
static ft_status spread(ft_pass *pass, ft_tensor *read, ft_tensor *dx) {
    ft_device *device = pass->model->device;
    FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, read->cols, FT_MEM_ACTIVATIONS, -1, "gradient of rows", dx));
    FT_TRY(device->functions->fill(device, dx->data, 0, (size_t)(dx->rows * dx->cols) * sizeof(float)));
    FT_TRY(ft_pass_scatter_add(pass, pass->batch->read_row, *read, *dx));
    ft_pass_free(pass, read);
    return FT_OK;
}

ft_status ft_language_train(ft_pass *pass, ft_tensor *x, ft_tensor losses, bool want_dx, ft_tensor *dx) {
    const int32_t most = most_rows(pass), reads = pass->batch->reads;
    ft_tensor read, dread = ft_absent();
    *dx = ft_absent();
    FT_TRY(gather_rows(pass, *x, &read));
    ft_pass_free(pass, x);
    if (want_dx) FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_READ, read.cols, FT_MEM_ACTIVATIONS, -1, "gradient of rows that are read", &dread));
    const int32_t begin = ft_memory_loop_begin(pass->model->memory);
    for (int32_t first = 0; first < reads; first += most) {
        if (first > 0) ft_memory_loop_again(pass->model->memory, begin);
        const int32_t count = reads - first < most ? reads - first : most;
        chunk c;
        cut(pass, first, count, &c);
        FT_TRY(train_chunk(&c, ft_rows(read, first, count), part_of(losses, first, count), want_dx ? ft_rows(dread, first, count) : ft_absent()));
    }
    ft_memory_loop_end(pass->model->memory);
    ft_pass_free(pass, &read);
    return want_dx ? spread(pass, &dread, dx) : FT_OK;
}

ft_status ft_language_judge(ft_pass *pass, ft_tensor x, ft_tensor losses) {
    const int32_t most = most_rows(pass), reads = pass->batch->reads;
    ft_tensor read;
    FT_TRY(gather_rows(pass, x, &read));
    const int32_t begin = ft_memory_loop_begin(pass->model->memory);
    for (int32_t first = 0; first < reads; first += most) {
        if (first > 0) ft_memory_loop_again(pass->model->memory, begin);
        const int32_t count = reads - first < most ? reads - first : most;
        chunk c;
        ft_tensor logits;
        cut(pass, first, count, &c);
        FT_TRY(ft_pass_float_tensor(&c.pass, FT_ROWS_READ, pass->model->vocabulary, FT_MEM_ACTIVATIONS, -1, "logits of a chunk", &logits));
        FT_TRY(ft_linear_product(&c.pass, FT_ROWS_READ, &pass->model->head[0], ft_rows(read, first, count), ft_absent(), logits));
        FT_TRY(ft_pass_plain_losses(&c.pass, logits, part_of(losses, first, count)));
        ft_pass_free(&c.pass, &logits);
    }
    ft_memory_loop_end(pass->model->memory);
    ft_pass_free(pass, &read);
    return FT_OK;
}

ft_status ft_language_next(ft_pass *pass, ft_tensor x, ft_tensor logits) {
    ft_tensor read;
    FT_TRY(gather_rows(pass, x, &read));
    FT_TRY(ft_linear_product(pass, FT_ROWS_READ, &pass->model->head[0], read, ft_absent(), logits));
    ft_pass_free(pass, &read);
    return FT_OK;
}
