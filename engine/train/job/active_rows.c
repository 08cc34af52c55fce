#include "engine/train/job/active_rows.h"

#include "base/files.h"
#include "base/log.h"
#include "engine/memory/memory.h"
#include "engine/model/model.h"
#include "engine/model/state/absent_rows.h"
#include "kernels/ops/adamw.h"

#include <string.h>

// A model inside the directory that the run writes could lose its file to the run itself, and rows with it. False: no memory.
static bool lies_in_run_directory(const ft_job *job, bool *inside) {
    ft_arena arena = {0};
    const char *dir = job->config->output.dir;
    *inside = false;
    if (job->config->model.init == FT_INIT_RANDOM || dir[0] == '\0') return true;
    char *run = ft_path_absolute(&arena, NULL, dir), *model = ft_path_absolute(&arena, NULL, job->model_dir);
    bool known = run != NULL && model != NULL;
    size_t length = known ? strlen(run) : 0;
    *inside = known && strncmp(model, run, length) == 0 && (model[length] == '/' || model[length] == '\0');
    ft_arena_free(&arena);
    return known;
}

static int64_t bytes_of(const ft_job *job, int64_t held, int64_t trained) {
    const ft_precision precision = job->config->train.precision;
    const bool trains = ft_model_trains_words(&job->model_config, job->config);
    const int64_t weight = ft_precision_is_half(precision) ? 2 : 4, exact = precision == FT_PRECISION_BF16 ? 2 : precision == FT_PRECISION_FP16 ? 4 : 0;
    const int64_t beside = exact + 3 * 4; // a tail or a master copy, a gradient and two moments
    return job->model_config.embedding_size * (held * weight + (trains ? trained * beside : 0));
}

// What the table takes less by it, and what the bookkeeping on the device takes in turn.
static int64_t saving_of(const ft_job *job, const ft_word_rows *v) {
    int64_t books = (ft_norm_blocks(v->rows) + 1) * (int64_t)sizeof(int32_t) + FT_DECAY_FACTORS * (int64_t)sizeof(float);
    return bytes_of(job, v->rows, v->rows) - bytes_of(job, v->held, v->trained) - books;
}

ft_status ft_job_choose_rows(ft_job *job) {
    const bool trains = ft_model_trains_words(&job->model_config, job->config);
    bool inside;
    if (job->config->memory.active_vocabulary == FT_VOCABULARY_OFF || job->without_data) return FT_OK;
    if (job->model_config.language_head && job->model_config.tied) return FT_OK; // the head reads all of them
    if (ft_model_config_reads_pictures(&job->model_config)) return FT_OK;
    if ((float)job->config->train.adam_epsilon == 0) return FT_OK; // AdamW then divides 0 by 0 where there is no gradient
    if (!lies_in_run_directory(job, &inside)) return FT_NO_MEMORY;
    if (inside) return FT_OK;
    ft_word_rows *v = &job->own_word_rows;
    FT_TRY(ft_word_rows_open(job->model_config.vocab_size, v));
    for (int s = 0; s < FT_SPLITS; s++) {
        const ft_dataset *data = &job->split[s].data;
        if (s == FT_SPLIT_TRAIN || ft_job_evaluates(job, (ft_split)s))
            ft_word_rows_mark(v, data->ids, data->tokens, trains && s == FT_SPLIT_TRAIN);
    }
    FT_TRY(ft_word_rows_number(v));
    int64_t saving = saving_of(job, v);
    if (saving <= 0) return FT_OK;
    job->word_rows = v;
    job->word_rows_save = saving;
    char text[24];
    ft_info("vocabulary %d of %d rows of the word table are trained, %d more are read: %s less on the device", v->trained, v->rows,
            v->held - v->trained, ft_bytes_text((size_t)saving, text));
    return FT_OK;
}
