#include "engine/embed/embed.h"

#include "base/spill.h"
#include "engine/data/text_input.h"
#include "kernels/half.h"

#include <stdlib.h>
#include <string.h>

ft_status ft_embed_read_all(ft_dataset *data) {
    data->first_read = ft_spill_calloc((size_t)data->sequences + 1, sizeof *data->first_read, "rows that are read");
    data->read_position = ft_spill_calloc((size_t)data->tokens + 1, sizeof *data->read_position, "rows that are read");
    if (data->first_read == NULL || data->read_position == NULL) return FT_NO_MEMORY;
    for (int64_t s = 0; s < data->sequences; s++) {
        data->first_read[s + 1] = data->offset[s + 1];
        for (int64_t i = data->offset[s]; i < data->offset[s + 1]; i++) data->read_position[i] = (int32_t)(i - data->offset[s]);
    }
    return FT_OK;
}

// Special tokens behind a text are those that an empty one ends with too.
ft_status ft_embed_prompt_tokens(const ft_input *input, const char *prompt, int64_t *tokens) {
    const ft_tokenizer *tokenizer = ((const ft_texts *)input->own)->tokenizer;
    ft_token_ids own = {.count = 0}, empty = {.count = 0};
    ft_status status = ft_tokenizer_encode(tokenizer, prompt, strlen(prompt), 0, &own);
    if (status == FT_OK) status = ft_tokenizer_encode(tokenizer, "", 0, 0, &empty);
    const bool ends = own.count > 0 && empty.count > 0 && own.ids[own.count - 1] == empty.ids[empty.count - 1];
    *tokens = (int64_t)own.count - ends;
    free(own.ids);
    free(empty.ids);
    return status;
}

typedef struct pass {
    const ft_dataset *data;
    ft_vector_head *head;
    ft_dtype dtype;
    float *row; // [longest, hidden] of a text, where the model's are not fp32
    float *vector;
    ft_vector_sink *sink;
    void *context;
} pass;

static const float *widen(pass *p, const char *rows, int64_t first, int64_t count) {
    const int64_t numbers = count * p->head->hidden;
    if (p->dtype == FT_F32) return (const float *)(const void *)rows + first * p->head->hidden;
    const uint16_t *half = (const uint16_t *)(const void *)rows + first * p->head->hidden;
    for (int64_t i = 0; i < numbers; i++) p->row[i] = p->dtype == FT_F16 ? ft_from_fp16(half[i]) : ft_from_bf16(half[i]);
    return p->row;
}

static ft_status take(void *context, int64_t first, int64_t count, const void *rows) {
    pass *p = context;
    for (int64_t i = 0, at = 0; i < count; i++) {
        const int64_t reads = ft_dataset_reads(p->data, first + i);
        FT_TRY(ft_vector_head_run(p->head, widen(p, rows, at, reads), reads, p->vector));
        FT_TRY(p->sink(p->context, first + i, p->vector));
        at += reads;
    }
    return FT_OK;
}

ft_status ft_embed_dataset(ft_model *model, ft_vector_head *head, const ft_dataset *data, ft_batch_limits limits, ft_capacity capacity,
                           ft_vector_sink *sink, void *context, ft_predict_progress progress, void *watcher) {
    pass p = {.data = data, .head = head, .dtype = model->dtype, .sink = sink, .context = context};
    const size_t hidden = (size_t)model->hidden;
    void *home = NULL;
    ft_status status = FT_OK;
    p.vector = ft_calloc((size_t)head->width, sizeof *p.vector, "a vector");
    if (model->dtype != FT_F32) p.row = ft_calloc((size_t)capacity.most_reads * hidden, sizeof *p.row, "rows of a text");
    if (!ft_device_queues(model->device)) home = ft_calloc((size_t)capacity.reads * hidden, ft_dtype_size(model->dtype), "rows of texts");
    if (p.vector == NULL || (model->dtype != FT_F32 && p.row == NULL) || (!ft_device_queues(model->device) && home == NULL)) status = FT_NO_MEMORY;
    if (status == FT_OK) {
        ft_data_pass over;
        status = ft_data_pass_open(model, capacity, FT_PASS_ROWS, &over);
        if (status == FT_OK) status = ft_data_pass_run(&over, data, limits, home, take, &p, progress, watcher);
        status = ft_data_pass_close(&over, status);
    }
    free(home);
    free(p.row);
    free(p.vector);
    return status;
}
