// card.c - README.md beside the model: what the Hub reads of it (YAML between two lines of dashes), and what people
// want to know before they use it.
//
// The first line of the YAML says so with the hash of all that follows. A card whose hash is another one was changed by
// somebody, and one without that line was never ours: either stays as it is. No path of this machine is in it, names of
// files alone.
#include "engine/train/trainer.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/options.h"
#include "kernels/devices/devices.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "---\n# made by ftengine, which renews it until somebody changes it: ",
                  file_name[] = "README.md";
enum { HASH = 64 };

// ---- whose it is --------------------------------------------------------------------------------------------------

// *ours: there is none, or one that nobody has changed.
static ft_status look(const char *path, bool *ours) {
    char *data, hash[HASH + 1];
    size_t length;
    *ours = true;
    if (!ft_path_exists(path)) return FT_OK;
    FT_TRY(ft_read_file(path, 0, &data, &length));
    const size_t begin = sizeof head - 1, rest = begin + HASH + 1;
    *ours = length > rest && memcmp(data, head, begin) == 0 && data[rest - 1] == '\n';
    ft_status status = *ours ? ft_sha256(data + rest, length - rest, hash) : FT_OK;
    if (status == FT_OK && *ours) *ours = memcmp(data + begin, hash, HASH) == 0;
    free(data);
    return status;
}

// ---- words --------------------------------------------------------------------------------------------------------

// A string of YAML, which is one of JSON.
static void put_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7F)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

// In a table or a line of Markdown.
static void put_plain(FILE *out, const char *text) {
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr("\\`*_{}[]<>|#", *c) != NULL) fputc('\\', out);
        fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
    }
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

// OWNER/NAME of a model that lies in huggingface_hub's cache, in the arena; NULL: it does not, or has no owner.
static const char *hub_name(ft_trainer *t) {
    static const char mark[] = "/models--";
    const char *at = strstr(t->job.model_dir, mark), *from = at, *end;
    while (from != NULL && (from = strstr(from + 1, mark)) != NULL)
        at = from;
    if (at == NULL || (end = strchr(at + 1, '/')) == NULL) return NULL;
    at += sizeof mark - 1;
    const char *dashes = memmem(at, (size_t)(end - at), "--", 2);
    if (dashes == NULL || dashes == at || dashes + 2 >= end ||
        memmem(dashes + 2, (size_t)(end - dashes - 2), "--", 2) != NULL)
        return NULL;
    return ft_arena_format(&t->arena, "%.*s/%.*s", (int)(dashes - at), at, (int)(end - dashes - 2), dashes + 2);
}

// What the Hub calls a task: pipeline_tag.
static const char *pipeline_of(const ft_trainer *t) {
    if (ft_model_config_reads_pictures(&t->job.model_config)) return "image-classification";
    switch (t->job.task->id) {
    case FT_TASK_TOKEN_CLASSIFICATION: return "token-classification";
    case FT_TASK_QUESTION_ANSWERING: return "question-answering";
    case FT_TASK_CAUSAL_LM: return "text-generation";
    case FT_TASK_RANKING: return "text-ranking";
    default: return "text-classification";
    }
}

// As the Hub's metrics are called, where it has one; else our name.
static const char *metric_type(ft_metric metric) {
    switch (metric) {
    case FT_METRIC_F1_MACRO:
    case FT_METRIC_F1_MICRO:
    case FT_METRIC_F1_WEIGHTED:
    case FT_METRIC_F1_BINARY:
    case FT_METRIC_F1_STRICT:
    case FT_METRIC_ANSWER_F1: return "f1";
    case FT_METRIC_PRECISION_MACRO:
    case FT_METRIC_PRECISION_MICRO:
    case FT_METRIC_PRECISION_WEIGHTED:
    case FT_METRIC_PRECISION_BINARY:
    case FT_METRIC_PRECISION_STRICT: return "precision";
    case FT_METRIC_RECALL_MACRO:
    case FT_METRIC_RECALL_MICRO:
    case FT_METRIC_RECALL_WEIGHTED:
    case FT_METRIC_RECALL_BINARY:
    case FT_METRIC_RECALL_STRICT: return "recall";
    case FT_METRIC_MATTHEWS: return "matthews_correlation";
    case FT_METRIC_AUROC: return "roc_auc";
    case FT_METRIC_PEARSON: return "pearsonr";
    case FT_METRIC_SPEARMAN: return "spearmanr";
    default: return ft_metric_name(metric);
    }
}

// ---- figures ------------------------------------------------------------------------------------------------------

typedef struct figures {
    ft_split split;
    double value[FT_METRIC_COUNT]; // NaN: none
    int count;
} figures;

static figures figures_of(const ft_trainer *t, ft_split split, bool ended) {
    figures f = {.split = split};
    const bool there = ended && (split == FT_SPLIT_TEST ? t->have_test_metrics : t->step.state.best_step >= 0);
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        f.value[k] = !there ? NAN : split == FT_SPLIT_TEST ? t->test_metrics.value[k] : t->step.state.best_metrics[k];
        f.count += isfinite(f.value[k]);
    }
    return f;
}

static const char *data_type(const ft_trainer *t, ft_split split) {
    if (ft_model_config_reads_pictures(&t->job.model_config)) return "imagefolder";
    switch (t->job.split[split].table.format) {
    case FT_FORMAT_JSONL:
    case FT_FORMAT_SQUAD: return "json";
    case FT_FORMAT_TEXT:
    case FT_FORMAT_CONLL: return "text";
    default: return "csv";
    }
}

static void put_result(const ft_trainer *t, const figures *f, FILE *out) {
    const ft_split_data *data = &t->job.split[f->split];
    char value[FT_REAL_TEXT];
    fprintf(out, "  - task:\n      type: %s\n    dataset:\n      name: ", pipeline_of(t));
    put_string(out, base_name(data->path));
    fprintf(out, "\n      type: %s\n      split: %s\n      args:\n        sha256: \"%s\"\n    metrics:\n",
            data_type(t, f->split), ft_split_name(f->split), data->table.sha256);
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        if (!isfinite(f->value[k])) continue;
        ft_rounded_text(f->value[k], 6, value);
        fprintf(out, "    - type: %s\n      name: %s\n      value: %s\n", metric_type((ft_metric)k),
                ft_metric_name((ft_metric)k), value);
    }
}

// Each once.
static void put_metric_list(const ft_trainer *t, const figures *f, FILE *out) {
    const char *listed[FT_METRIC_COUNT];
    int count = 0;
    for (int i = 0; i < FT_SPLITS; i++)
        for (int k = FT_METRIC_LOSS + 1; k < FT_METRIC_COUNT; k++) {
            if (!isfinite(f[i].value[k])) continue;
            const char *type = metric_type((ft_metric)k);
            int at = 0;
            while (at < count && strcmp(listed[at], type) != 0)
                at++;
            if (at < count) continue;
            fprintf(out, "%s- %s\n", count == 0 ? "metrics:\n" : "", type);
            listed[count++] = type;
        }
}

static void put_metadata(ft_trainer *t, const figures *f, const char *name, FILE *out) {
    const bool adapter = t->room.config->adapter.type != FT_ADAPTER_NONE;
    const char *base = hub_name(t);
    if (base != NULL) {
        fprintf(out, "base_model: ");
        put_string(out, base);
        fprintf(out, "\nbase_model_relation: %s\n", adapter ? "adapter" : "finetune");
    }
    fprintf(out, "library_name: %s\npipeline_tag: %s\ntags:\n- ftengine\n- %s\n", adapter ? "peft" : "transformers",
            pipeline_of(t), t->job.model_config.model_type);
    if (adapter) fprintf(out, "- lora\n");
    put_metric_list(t, f, out);
    if (f[FT_SPLIT_VALIDATION].count + f[FT_SPLIT_TEST].count == 0) return;
    fprintf(out, "model-index:\n- name: ");
    put_string(out, name);
    fprintf(out, "\n  results:\n");
    for (int s = 0; s < FT_SPLITS; s++)
        if (f[s].count > 0) put_result(t, &f[s], out);
}

// ---- for people ---------------------------------------------------------------------------------------------------

static void put_figures(const figures *f, FILE *out) {
    const bool test = f[FT_SPLIT_TEST].count > 0, validation = f[FT_SPLIT_VALIDATION].count > 0;
    char text[FT_REAL_TEXT];
    if (!test && !validation) return;
    fprintf(out, "\n## Results\n\n| |%s%s\n| --- |%s%s\n", validation ? " validation |" : "", test ? " test |" : "",
            validation ? " --- |" : "", test ? " --- |" : "");
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        if (!isfinite(f[FT_SPLIT_VALIDATION].value[k]) && !isfinite(f[FT_SPLIT_TEST].value[k])) continue;
        fprintf(out, "| %s |", ft_metric_name((ft_metric)k));
        for (int s = FT_SPLIT_VALIDATION; s < FT_SPLITS; s++) {
            if (f[s].count == 0) continue;
            if (isfinite(f[s].value[k])) ft_rounded_text(f[s].value[k], 4, text);
            fprintf(out, " %s |", isfinite(f[s].value[k]) ? text : "");
        }
        fprintf(out, "\n");
    }
    if (validation)
        fprintf(out, "\nOf validation these are the figures of the best evaluation, by which this model was chosen: "
                     "they flatter it.\n");
}

static void put_data(const ft_trainer *t, FILE *out) {
    fprintf(out, "\n## Data\n\n| | file | examples | SHA-256 |\n| --- | --- | --- | --- |\n");
    for (int s = 0; s < FT_SPLITS; s++) {
        if (!t->job.split[s].present) continue;
        fprintf(out, "| %s | ", ft_split_name((ft_split)s));
        put_plain(out, base_name(t->job.split[s].path));
        fprintf(out, " | %lld | `%.16s...` |\n", (long long)t->job.split[s].data.examples,
                t->job.split[s].table.sha256);
    }
}

// What the configuration says of the result: options that are not at their defaults, but for where files are and what
// changes no result.
static void put_options(const ft_trainer *t, FILE *out) {
    char scratch[FT_OPTION_TEXT_LIMIT];
    fprintf(out, "| option | value |\n| --- | --- |\n");
    for (int i = 0; i < ft_option_count(); i++) {
        const ft_option *o = ft_option_at(i);
        const bool seed = strcmp(o->name, "train.seed") == 0;
        if (o->type == FT_OPTION_PATH || o->secret || (o->change == FT_FREE && !seed)) continue;
        const char *text = ft_option_get(t->room.config, o, scratch);
        if (!seed && strcmp(text, o->initial) == 0) continue;
        fprintf(out, "| %s | ", o->name);
        put_plain(out, text);
        fprintf(out, " |\n");
    }
}

static void put_training(ft_trainer *t, bool ended, FILE *out) {
    const ft_memory_counters peaks = ft_run_peaks(t);
    char bytes[24];
    fprintf(out, "\n## How it was trained\n\n");
    put_options(t, out);
    fprintf(out, "\nAll other options have their defaults (ftengine %s). ", FT_VERSION);
    if (!ended) {
        fprintf(out, "The run had not ended when this was written.\n");
        return;
    }
    fprintf(out, "%lld of %lld steps, %lld tokens, in %.0f s", (long long)t->step.state.step,
            (long long)t->room.plan.total_steps, (long long)t->step.state.tokens,
            t->seconds_before + ft_now() - t->started);
    if (t->step.state.best_step >= 0)
        fprintf(out, "; the best model is that of step %lld, by %s", (long long)t->step.state.best_step,
                ft_metric_name(t->room.config->eval.metric));
    fprintf(out, ". Device: ");
    put_plain(out, t->room.device->description);
    fprintf(out, "; at most %s (%zu bytes) of its memory. The same seed, data and options give the same weights.\n",
            ft_bytes_text(peaks.peak_allocated, bytes), peaks.peak_allocated);
}

static void put_use(const ft_trainer *t, FILE *out) {
    const char *const *names = t->job.label_names;
    const int count = t->job.labels.count;
    fprintf(out,
            "\n## Intended use\n\n<!-- For the author to say: who should use this, for what, and for what not; whom "
            "the data are about and in which "
            "language. -->\nNot stated.\n\n## How to use it\n\n```sh\nftengine predict %s --data texts.csv\n```\n",
            ft_run_result(t->room.config));
    if (names == NULL || count < 1 || ft_task_has_spans(t->job.task) || ft_task_has_language(t->job.task)) return;
    fprintf(out, "\n%s: ", ft_task_has_classes(t->job.task) ? "Classes" : "Outputs");
    for (int k = 0; k < count && k < 100; k++) {
        if (k > 0) fprintf(out, ", ");
        put_plain(out, names[k]);
    }
    fprintf(out, count > 100 ? ", and %d more.\n" : ".\n", count - 100);
}

static void put_card(ft_trainer *t, bool ended, FILE *out) {
    const char *name = base_name(t->dir), *base = hub_name(t);
    figures f[FT_SPLITS];
    for (int s = 0; s < FT_SPLITS; s++)
        f[s] = figures_of(t, (ft_split)s, ended && s != FT_SPLIT_TRAIN);
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        f[FT_SPLIT_TRAIN].value[k] = NAN;
    f[FT_SPLIT_TRAIN].count = 0;
    put_metadata(t, f, name, out);
    fprintf(out, "---\n\n# ");
    put_plain(out, name);
    fprintf(out, "\n\n%s of type %s, %s from ",
            t->room.config->adapter.type != FT_ADAPTER_NONE ? "An adapter for a model" : "A model",
            t->job.model_config.model_type,
            t->room.config->model.init == FT_INIT_RANDOM ? "trained from new weights, with the shape" : "fine-tuned");
    put_plain(out, base != NULL ? base : base_name(t->room.config->model.path));
    fprintf(out, " for %s by ftengine.\n", ft_task_name(t->job.task->id));
    put_figures(f, out);
    put_use(t, out);
    put_training(t, ended, out);
    put_data(t, out);
}

// ---- the file -----------------------------------------------------------------------------------------------------

static ft_status write_card(ft_trainer *t, const char *path, bool ended) {
    char *text = NULL, hash[HASH + 1];
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) return ft_fail_memory(0, "a model card");
    put_card(t, ended, out);
    const bool whole = fclose(out) == 0;
    ft_atomic_file file = {0};
    ft_status status = whole ? ft_sha256(text, length, hash) : ft_fail_memory(0, "a model card");
    if (status == FT_OK) status = ft_atomic_open(&file, path);
    if (status == FT_OK) {
        fprintf(file.stream, "%s%s\n", head, hash);
        fwrite(text, 1, length, file.stream);
        status = ft_atomic_commit(&file);
    }
    free(text);
    return status;
}

// Into the directory that will take the place of the one with the model so far, whose card stays where somebody wrote
// it.
ft_status ft_card_save(ft_trainer *t, const char *dir) {
    const char *before = ft_path_join(&t->arena, t->dir, ft_run_result(t->room.config)),
               *path = ft_path_join(&t->arena, dir, file_name);
    const char *old = before != NULL ? ft_path_join(&t->arena, before, file_name) : NULL;
    bool ours;
    if (old == NULL || path == NULL) return FT_NO_MEMORY;
    FT_TRY(look(old, &ours));
    return ours ? write_card(t, path, false) : ft_copy_file(old, path);
}

ft_status ft_card_renew(ft_trainer *t) {
    if (!ft_trainer_leads(t)) return FT_OK;
    const char *dir = ft_path_join(&t->arena, t->dir, ft_run_result(t->room.config)),
               *path = dir != NULL ? ft_path_join(&t->arena, dir, file_name) : NULL;
    bool ours;
    if (path == NULL) return FT_NO_MEMORY;
    if (!ft_path_is_directory(dir)) return FT_OK;
    FT_TRY(look(path, &ours));
    return ours ? write_card(t, path, true) : FT_OK;
}
