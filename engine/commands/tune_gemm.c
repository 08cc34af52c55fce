// tune_gemm.c - ftengine tune-gemm: measures the algorithms of cuBLASLt for the matrix products of a run, on the GPU that it
// is to run on. The run is opened as `train` opens it, and one micro-batch of every size that its first epoch has goes
// through the model, forward and backward; nothing is learned.
#include "base/log.h"
#include "base/stop.h"
#include "engine/commands/commands.h"
#include "engine/model/gradients/gradients.h"
#include "engine/train/room/gemm_tuning.h"
#include "engine/train/trainer.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <stdlib.h>

static ft_status check_stop(void) {
    if (ft_stop_signal() == 0) return FT_OK;
    return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped: no file is written");
}

static ft_status measure_batch(ft_trainer *t, int64_t first, int64_t count) {
    const ft_step_state step = {.seed = 1, .learning_rate = 0, .loss_factor = 1, .loss_scale = 1};
    const ft_device_functions *f = t->room.device->functions;
    FT_TRY(f->upload(t->room.device, t->step.step_state, &step, sizeof step));
    FT_TRY(f->sync(t->room.device)); // `step` goes out of scope
    FT_TRY(ft_gradients_clear(&t->room.model.parameters));
    FT_TRY(ft_batch_buffers_load(&t->step.buffers, &t->job.split[FT_SPLIT_TRAIN].data, t->step.order, first, count, 0));
    const ft_batch *b = &t->step.buffers.device;
    // A batch that was filled up has one sequence more than texts.
    const ft_tensor losses = ft_vector(t->step.batch_losses != NULL ? t->step.batch_losses : t->step.losses, b->reads, FT_F32);
    FT_TRY(ft_model_begin_step(&t->room.model, t->room.plan.capacity, t->step.step_state));
    FT_TRY(ft_model_train_batch(&t->room.model, b, t->room.plan.capacity, t->step.step_state, losses));
    FT_TRY(ft_model_end_step(&t->room.model, t->room.plan.capacity, t->step.step_state));
    return f->sync(t->room.device);
}

// Of the batch that order[first .. first + count) makes, with its filling (ft_batch_fill_up).
static void sizes_of(const ft_trainer *t, int64_t first, int64_t count, int64_t *tokens, int64_t *sequences) {
    const ft_dataset *data = &t->job.split[FT_SPLIT_TRAIN].data;
    *tokens = 0;
    *sequences = count;
    for (int64_t i = first; i < first + count; i++) *tokens += ft_dataset_length(data, t->step.order[i]);
    const int64_t over = t->step.buffers.bucket > 0 ? *tokens % t->step.buffers.bucket : 0;
    if (over == 0) return;
    *tokens += t->step.buffers.bucket - over;
    ++*sequences;
}

// A product's shape depends on the tokens of a batch, and in the head on its sequences: one batch of every pair.
typedef struct sizes_seen {
    int64_t (*pair)[2];
    size_t count;
} sizes_seen;

static bool is_new(sizes_seen *seen, int64_t tokens, int64_t sequences) {
    for (size_t i = 0; i < seen->count; i++)
        if (seen->pair[i][0] == tokens && seen->pair[i][1] == sequences) return false;
    seen->pair[seen->count][0] = tokens;
    seen->pair[seen->count++][1] = sequences;
    return true;
}

static ft_status measure_epoch(ft_trainer *t, sizes_seen *seen) {
    const ft_dataset *data = &t->job.split[FT_SPLIT_TRAIN].data;
    FT_TRY(ft_epoch_order(t->room.plan.order_seed, 0, data->sequences, t->step.order));
    for (int64_t step = 0; step < t->room.plan.steps_per_epoch && step < t->room.plan.total_steps; step++) {
        int64_t epoch, first, last;
        ft_run_plan_step(&t->room.plan, step, &epoch, &first, &last);
        while (first < last) {
            int64_t count = ft_batch_cut(data, t->step.order, first, last, t->room.plan.limits), tokens, sequences;
            FT_TRY(check_stop());
            sizes_of(t, first, count, &tokens, &sequences);
            if (is_new(seen, tokens, sequences)) FT_TRY(measure_batch(t, first, count));
            first += count;
        }
        ft_status_line("step %lld / %lld, %zu sizes of micro-batches", (long long)step + 1,
                       (long long)t->room.plan.steps_per_epoch, seen->count);
    }
    return FT_OK;
}

static ft_status measure_evaluation(ft_trainer *t) {
    for (int s = FT_SPLIT_VALIDATION; s < FT_SPLITS; s++) {
        const ft_dataset *data = &t->job.split[s].data;
        if (!ft_job_evaluates(&t->job, (ft_split)s)) continue;
        ft_logits logits;
        ft_status status = ft_logits_open(ft_dataset_rows(data), t->job.labels.count, NULL, &logits);
        if (status == FT_OK)
            status = ft_predict_dataset(&t->room.model, t->job.task, data, t->room.eval_limits, t->room.eval_capacity,
                                              t->room.config->eval.window_pooling, &logits, NULL, NULL, NULL);
        ft_logits_close(&logits);
        FT_TRY(status);
        FT_TRY(check_stop());
    }
    return FT_OK;
}

static ft_status measure(ft_trainer *t, const char *path, bool json) {
    sizes_seen seen = {.pair = ft_calloc((size_t)t->job.split[FT_SPLIT_TRAIN].data.sequences + 1, sizeof *seen.pair,
                                         "sizes of micro-batches")};
    if (seen.pair == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_gemms_measure(t->room.device));
    ft_status status = measure_epoch(t, &seen);
    ft_status_line("%s", "");
    const size_t sizes = seen.count;
    free(seen.pair);
    FT_TRY(status);
    FT_TRY(measure_evaluation(t));
    size_t count;
    FT_TRY(ft_gemm_tuning_save(t->room.device, path, &count));
    const ft_gemm_choice *choices = ft_gemms_choices(t->room.device, &count);
    double best = 0, first = 0;
    for (size_t i = 0; i < count; i++) best += (double)choices[i].microseconds, first += (double)choices[i].first_microseconds;
    if (json) {
        bool failed = false;
        json_t *document = json_pack("{s:i, s:I, s:I, s:f, s:f}", "format_version", 1, "products", (json_int_t)count, "sizes", (json_int_t)sizes,
                                     "microseconds", best, "first_microseconds", first);
        ft_json_put(document, "output", ft_json_text(path), &failed);
        return ft_print_document(document, failed);
    }
    printf("%zu products of %zu sizes of micro-batches: %.1f us in all, %.1f with cuBLASLt's first choices\n%s\n", count, sizes, best, first,
           path);
    return FT_OK;
}

static ft_status run(const ft_config *config, const char *path, bool json) {
    ft_trainer t;
    ft_stop_begin();
    ft_status status = ft_trainer_open(config, &t);
    if (status == FT_OK && !ft_gemms_have(t.room.device)) {
        status = ft_fail(FT_NO_DEVICE, "device.name", "matrix products are tuned on a GPU, and this run is on %s", t.room.device->name);
        ft_hint("ftengine devices says what is missing");
    }
    if (status == FT_OK) status = measure(&t, path, json);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_trainer_close(&t);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

ft_status ft_command_tune_gemm(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_config config = {0};
    const char *output = NULL;
    bool json = false;
    const ft_flag flags[] = {{"--output", &output, NULL}, {"--json", NULL, &json}};
    ft_status status = ft_parse_words("tune-gemm", argc, argv, 2, flags, &arena, &words);
    if (status == FT_OK && (output == NULL || output[0] == '\0')) {
        status = ft_fail(FT_INVALID, "--output", "where the measured choices go is not given");
        ft_hint("ftengine tune-gemm CONFIG.ini --output h200.json, then train with device.gemm_tuning=h200.json");
    }
    if (status == FT_OK) status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count, words.overrides);
    if (status == FT_OK && config.device.gemm_tuning[0] != '\0')
        status = ft_fail(FT_INVALID, "device.gemm_tuning", "products that are measured cannot be tuned already");
    if (status == FT_OK) status = run(&config, output, json);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
