#include "engine/track/tensorboard.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/track/event_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Numbers of fields in TensorFlow's event.proto, summary.proto, tensor.proto and TensorBoard's plugins.
enum {
    EVENT_SUMMARY = 5,
    EVENT_SESSION = 7,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9
};
enum {
    METADATA_PLUGIN = 1,
    METADATA_CLASS = 4,
    CLASS_SCALAR = 1,
    CLASS_TENSOR = 2,
    PLUGIN_NAME = 1,
    PLUGIN_CONTENT = 2
};
enum {
    TENSOR_TYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_FLOATS = 5,
    TENSOR_TEXTS = 8,
    TYPE_FLOAT = 1,
    TYPE_STRING = 7,
    SHAPE_DIM = 2,
    DIM_SIZE = 1
};
enum { SESSION_START = 1 };

struct ft_tensorboard {
    ft_event_file *file;
    int64_t from;       // the step that it goes on from
    int64_t epoch_step; // whose epoch is written; -1: none
    ft_memory_counters shown;
    bool showed;
};

// ---- values of a summary ------------------------------------------------------------------------------------------

static void add_scalar(ft_proto *summary, const char *tag, double value) {
    ft_proto v = {0};
    ft_proto_text(&v, VALUE_TAG, tag);
    ft_proto_float(&v, VALUE_SIMPLE, (float)value);
    ft_proto_message(summary, SUMMARY_VALUE, &v);
}

static void add_metadata(ft_proto *value, const char *plugin, ft_proto *content, int data_class) {
    ft_proto of_plugin = {0}, metadata = {0};
    ft_proto_text(&of_plugin, PLUGIN_NAME, plugin);
    if (content != NULL) ft_proto_message(&of_plugin, PLUGIN_CONTENT, content);
    ft_proto_message(&metadata, METADATA_PLUGIN, &of_plugin);
    if (data_class != 0) ft_proto_number(&metadata, METADATA_CLASS, data_class);
    ft_proto_message(value, VALUE_METADATA, &metadata);
}

// A text is an array of one; Markdown.
static void add_text(ft_proto *summary, const char *tag, const char *text) {
    ft_proto v = {0}, tensor = {0}, shape = {0}, dim = {0};
    ft_proto_number(&dim, DIM_SIZE, 1);
    ft_proto_message(&shape, SHAPE_DIM, &dim);
    ft_proto_number(&tensor, TENSOR_TYPE, TYPE_STRING);
    ft_proto_message(&tensor, TENSOR_SHAPE, &shape);
    ft_proto_text(&tensor, TENSOR_TEXTS, text);
    ft_proto_text(&v, VALUE_TAG, tag);
    ft_proto_message(&v, VALUE_TENSOR, &tensor);
    add_metadata(&v, "text", NULL, CLASS_TENSOR);
    ft_proto_message(summary, SUMMARY_VALUE, &v);
}

// What the HPARAMS page knows lies in the metadata of values that say nothing themselves.
static void add_hparams(ft_proto *summary, const char *tag, int field, ft_proto *message) {
    ft_proto v = {0}, tensor = {0}, shape = {0}, content = {0};
    ft_proto_number(&tensor, TENSOR_TYPE, TYPE_FLOAT);
    ft_proto_message(&tensor, TENSOR_SHAPE, &shape);
    ft_proto_floats(&tensor, TENSOR_FLOATS, 1, &(float){0});
    ft_proto_number(&content, 1, 0); // version
    ft_proto_message(&content, field, message);
    ft_proto_text(&v, VALUE_TAG, tag);
    ft_proto_message(&v, VALUE_TENSOR, &tensor);
    add_metadata(&v, "hparams", &content, 0);
    ft_proto_message(summary, SUMMARY_VALUE, &v);
}

// ---- a run --------------------------------------------------------------------------------------------------------

static ft_status add_config(ft_tensorboard *b, const ft_config *config) {
    char *text = NULL;
    size_t size = 0;
    static const char head[] = "```ini\n", foot[] = "```\n";
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return ft_fail_memory(0, "a configuration");
    fputs(head, out);
    ft_status status = ft_config_write(config, true, true, out);
    fputs(foot, out);
    if (fclose(out) != 0 && status == FT_OK) status = ft_fail_memory(0, "a configuration");
    ft_proto summary = {0};
    if (status == FT_OK) {
        add_text(&summary, "config/text_summary", text);
        status = ft_event_file_add(b->file, 0, EVENT_SUMMARY, &summary);
    }
    free(text);
    return status;
}

static ft_status add_start(ft_tensorboard *b) {
    ft_proto session = {0};
    ft_proto_number(&session, 1, SESSION_START);
    return ft_event_file_add(b->file, b->from, EVENT_SESSION, &session);
}

// What earlier files have of this step is dropped with what comes behind it; metrics.jsonl has kept it.
static ft_status again(void *context, const json_t *line) {
    ft_tensorboard *b = context;
    return json_integer_value(json_object_get(line, "step")) >= b->from ? ft_tensorboard_line(b, line) : FT_OK;
}

static ft_status begin(const char *directory, const ft_config *config, ft_arena *arena, ft_tensorboard *b) {
    bool follows;
    char *path = ft_path_join(arena, directory, "tensorboard"),
         *lines = ft_path_join(arena, directory, "metrics.jsonl");
    if (path == NULL || lines == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_event_file_open(path, &follows, &b->file));
    if (follows) FT_TRY(add_start(b));
    if (b->from == 0 || !follows) FT_TRY(add_config(b, config));
    FT_TRY(ft_json_lines_read(lines, again, b));
    return ft_event_file_flush(b->file);
}

ft_status ft_tensorboard_open(const char *directory, int64_t step, const ft_config *config, ft_tensorboard **board) {
    ft_arena arena = {0};
    ft_tensorboard *b = *board = ft_calloc(1, sizeof *b, "TensorBoard's figures");
    if (b == NULL) return FT_NO_MEMORY;
    b->from = step;
    b->epoch_step = -1;
    const ft_status status = begin(directory, config, &arena, b);
    ft_arena_free(&arena);
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error);
    (void)ft_tensorboard_close(b);
    ft_error_restore(&error);
    *board = NULL;
    return status;
}

ft_status ft_tensorboard_line(ft_tensorboard *b, const json_t *line) {
    ft_proto summary = {0};
    const char *key;
    json_t *value;
    const int64_t step = json_integer_value(json_object_get(line, "step"));
    json_object_foreach((json_t *)line, key, value) {
        char tag[160];
        if (!json_is_number(value) || strcmp(key, "step") == 0 || strcmp(key, "format_version") == 0) continue;
        if (strcmp(key, "epoch") == 0) { // of a step once, though its evaluation has it too
            if (b->epoch_step == step) continue;
            b->epoch_step = step;
        }
        const bool eval = strncmp(key, "eval_", 5) == 0, test = strncmp(key, "test_", 5) == 0;
        snprintf(tag, sizeof tag, "%s/%s", eval ? "eval" : test ? "test" : "train", eval || test ? key + 5 : key);
        add_scalar(&summary, tag, json_number_value(value));
    }
    if (summary.length > 0 || summary.failed) return ft_event_file_add(b->file, step, EVENT_SUMMARY, &summary);
    return FT_OK;
}

ft_status ft_tensorboard_scalar(ft_tensorboard *b, int64_t step, const char *tag, double value) {
    ft_proto summary = {0};
    add_scalar(&summary, tag, value);
    return ft_event_file_add(b->file, step, EVENT_SUMMARY, &summary);
}

ft_status ft_tensorboard_memory(ft_tensorboard *b, int64_t step, const ft_memory_counters *c, bool last) {
    const ft_memory_counters *before = &b->shown;
    ft_proto summary = {0};
    const bool same = b->showed && c->peak_allocated == before->peak_allocated &&
                      c->peak_reserved == before->peak_reserved &&
                      memcmp(c->at_peak, before->at_peak, sizeof c->at_peak) == 0;
    if (same && !last) return FT_OK;
    b->shown = *c;
    b->showed = true;
    add_scalar(&summary, "memory/peak_allocated_bytes", (double)c->peak_allocated);
    add_scalar(&summary, "memory/peak_reserved_bytes", (double)c->peak_reserved);
    for (int k = 0; k < FT_MEM_CATEGORIES; k++) {
        char tag[80];
        snprintf(tag, sizeof tag, "memory/at_peak/%s", ft_memory_category_name((ft_memory_category)k));
        add_scalar(&summary, tag, (double)c->at_peak[k]);
    }
    return ft_event_file_add(b->file, step, EVENT_SUMMARY, &summary);
}

ft_status ft_tensorboard_flush(ft_tensorboard *b) { return ft_event_file_flush(b->file); }

ft_status ft_tensorboard_close(ft_tensorboard *b) {
    if (b == NULL) return FT_OK;
    const ft_status status = ft_event_file_close(b->file);
    free(b);
    return status;
}

// ---- a trial ------------------------------------------------------------------------------------------------------

enum { HPARAM_STRING = 1, HPARAM_NUMBER = 3 };

static const char *objective_tag(const ft_trial_summary *trial, int index, char tag[160]) {
    snprintf(tag, 160, "objective/%s", trial->objective[index]);
    return tag;
}

// Which parameters and figures there are; every trial says it.
static void add_experiment(ft_proto *summary, const ft_trial_summary *trial) {
    ft_proto experiment = {0};
    ft_proto_double(&experiment, 3, trial->started);
    for (int i = 0; i < trial->params; i++) {
        ft_proto info = {0};
        ft_proto_text(&info, 1, trial->param[i].name);
        ft_proto_number(&info, 4, trial->param[i].text != NULL ? HPARAM_STRING : HPARAM_NUMBER);
        ft_proto_message(&experiment, 4, &info);
    }
    for (int i = 0; i < trial->values; i++) {
        char tag[160];
        ft_proto info = {0}, name = {0};
        ft_proto_text(&name, 2, objective_tag(trial, i, tag));
        ft_proto_message(&info, 1, &name);
        ft_proto_message(&experiment, 5, &info);
    }
    add_hparams(summary, "_hparams_/experiment", 2, &experiment);
}

static void add_session(ft_proto *summary, const ft_trial_summary *trial) {
    char group[40];
    ft_proto start = {0}, end = {0};
    for (int i = 0; i < trial->params; i++) {
        const ft_hparam *p = &trial->param[i];
        ft_proto entry = {0}, value = {0};
        if (p->text != NULL)
            ft_proto_text(&value, 3, p->text);
        else
            ft_proto_double(&value, 2, p->number);
        ft_proto_text(&entry, 1, p->name);
        ft_proto_message(&entry, 2, &value);
        ft_proto_message(&start, 1, &entry);
    }
    snprintf(group, sizeof group, "trial %lld", (long long)trial->number);
    ft_proto_text(&start, 4, group);
    ft_proto_double(&start, 5, trial->started);
    add_hparams(summary, "_hparams_/session_start_info", 3, &start);
    ft_proto_number(&end, 1, trial->success ? 1 : 2);
    ft_proto_double(&end, 2, trial->ended);
    add_hparams(summary, "_hparams_/session_end_info", 4, &end);
}

ft_status ft_tensorboard_trial(const char *directory, const ft_trial_summary *trial) {
    ft_arena arena = {0};
    ft_event_file *file = NULL;
    bool follows;
    ft_proto known = {0}, figures = {0};
    char *path = ft_path_join(&arena, directory, "tensorboard");
    ft_status status = path != NULL ? ft_event_file_open(path, &follows, &file) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    FT_TRY(status);
    add_experiment(&known, trial);
    add_session(&known, trial);
    status = ft_event_file_add(file, 0, EVENT_SUMMARY, &known);
    for (int i = 0; trial->value != NULL && i < trial->values; i++) {
        char tag[160];
        add_scalar(&figures, objective_tag(trial, i, tag), trial->value[i]);
    }
    if (status == FT_OK && figures.length > 0)
        status = ft_event_file_add(file, trial->step, EVENT_SUMMARY, &figures);
    else
        ft_proto_free(&figures);
    const ft_status closed = ft_event_file_close(file);
    return status == FT_OK ? closed : status;
}
