// tune_gemm.c - ftengine tune-gemm: measures the algorithms of cuBLASLt for the matrix products of a run, on the GPU that it
// is to run on. The run is opened as `train` opens it, and one micro-batch of every size that its first epoch has goes
// through the model, forward and backward; nothing is learned.
#include "base/log.h"
#include "base/stop.h"
#include "engine/commands/commands.h"
#include "engine/train/room/gemm_tuning.h"
#include "engine/train/step/sizes.h"
#include "engine/train/trainer.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <stdlib.h>

static ft_status check_stop(void) {
    if (ft_stop_signal() == 0) return FT_OK;
    return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped: no file is written");
}

static ft_status measure_epoch(ft_trainer *t, size_t *count) {
    ft_batch_size *sizes;
    ft_status status = ft_sizes_find(&t->step, &sizes, count);
    for (size_t i = 0; i < *count && status == FT_OK; i++) {
        ft_status_line("size %zu / %zu of micro-batches", i + 1, *count);
        status = check_stop();
        if (status == FT_OK) status = ft_sizes_run(&t->step, &sizes[i]);
    }
    ft_status_line("%s", "");
    free(sizes);
    return status;
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
    size_t sizes, count;
    FT_TRY(ft_gemms_measure(t->room.device));
    FT_TRY(measure_epoch(t, &sizes));
    FT_TRY(measure_evaluation(t));
    FT_TRY(ft_gemm_tuning_save(t->room.device, path, &count));
    const ft_gemm_choice *choices = ft_gemms_choices(t->room.device, &count);
    double best = 0, first = 0;
    size_t products = 0; // (of one with an epilogue the product is among them)
    for (size_t i = 0; i < count; i++)
        if (choices[i].shape.epilogue == FT_GEMM_NO_EPILOGUE) {
            products++;
            best += (double)choices[i].microseconds;
            first += (double)choices[i].first_microseconds;
        }
    if (ft_device_product_remark(t->room.device)[0] != '\0') ft_warn("%s", ft_device_product_remark(t->room.device));
    if (json) {
        bool failed = false;
        json_t *document = json_pack("{s:i, s:I, s:I, s:f, s:f}", "format_version", 1, "products", (json_int_t)products, "sizes", (json_int_t)sizes,
                                     "microseconds", best, "first_microseconds", first);
        ft_json_put(document, "output", ft_json_text(path), &failed);
        return ft_print_document(document, failed);
    }
    printf("%zu products of %zu sizes of micro-batches: %.1f us in all, %.1f with cuBLASLt's first choices\n%s\n", products, sizes, best, first,
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
        ft_hint("ftengine tune-gemm CONFIG.ini --output h200.json, then train with device.gemm_tuning=h200.json; train with device.gemm_tuning=auto keeps them itself");
    }
    if (status == FT_OK) status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count, words.overrides);
    if (status == FT_OK && config.device.gemm_tuning[0] != '\0' && !ft_gemm_tuning_is_auto(&config))
        status = ft_fail(FT_INVALID, "device.gemm_tuning", "products that are measured cannot be tuned already");
    if (status == FT_OK) status = run(&config, output, json);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
