// load.c - defaults, then files, then overrides.
#include "base/files.h"
#include "engine/config/data_path.h"
#include "engine/config/deadline.h"
#include "engine/config/device_list.h"
#include "engine/config/ini.h"
#include "engine/config/options.h"
#include "engine/text/long_text.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT (1 << 20) // bytes of a configuration file
#define INCLUDE_LIMIT 8      // files within files: more is a circle

// Room for what the other sections set.
static ft_status add_values(ft_config *config) {
    const ft_section *const *others = config->others.list;
    int count = 0;
    if (others == NULL) return FT_OK;
    while (others[count] != NULL)
        count++;
    void **values = config->others.values = ft_arena_alloc(&config->arena, (size_t)(count + 1) * sizeof *values);
    if (values == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        values[i] = ft_arena_alloc(&config->arena, others[i]->size + 1);
        if (values[i] == NULL) return FT_NO_MEMORY;
        memset(values[i], 0, others[i]->size);
    }
    return FT_OK;
}

ft_status ft_config_defaults_with(const ft_section *const *others, ft_config *config) {
    const ft_option *option;
    *config = (ft_config){.name = "run", .others.list = others};
    FT_TRY(add_values(config));
    for (int i = 0; (option = ft_sections_option(others, i)) != NULL; i++) {
        if (i == FT_OPTION_LIMIT) return ft_fail(FT_FAILED, option->name, "there are more than %d options", FT_OPTION_LIMIT);
        FT_TRY(ft_option_set(config, option, option->initial, NULL, option->name));
    }
    return FT_OK;
}

ft_status ft_config_defaults(ft_config *config) { return ft_config_defaults_with(NULL, config); }

void ft_config_free(ft_config *config) {
    ft_arena_free(&config->arena);
    *config = (ft_config){0};
}

// ---- lines that are kept as they are, for the owner of their section --------------------------------------------------

// What stands behind the name of a section that keeps lines; NULL: `name` is of another section.
static const char *behind_section(const ft_config *config, const char *name) {
    const size_t length = strcspn(name, ".");
    const ft_section *section = name[length] == '.' ? ft_section_find(config->others.list, name, length) : NULL;
    return section != NULL && section->lines ? name + length + 1 : NULL;
}

// Drops the lines that sources other than this one have for an option; -1: those of all sources.
static void forget_lines(ft_config *config, const char *option, int source) {
    ft_option_line *lines = (ft_option_line *)config->lines.list;
    int kept = 0;
    for (int i = 0; i < config->lines.count; i++)
        if (lines[i].source == source || strcmp(lines[i].option, option) != 0) lines[kept++] = lines[i];
    config->lines.count = kept;
}

static ft_status add_line(ft_config *config, ft_option_line line) {
    FT_TRY(ft_check_storable(line.option, line.text, FT_LINE_LIMIT, line.where));
    forget_lines(config, line.option, line.source);
    int count = config->lines.count;
    if ((count & (count - 1)) == 0) { // 0, 1, 2, 4, ... are full
        ft_option_line *grown = ft_arena_alloc(&config->arena, (size_t)(count > 0 ? 2 * count : 1) * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (count > 0) memcpy(grown, config->lines.list, (size_t)count * sizeof *grown);
        config->lines.list = grown;
    }
    line.text = ft_arena_strdup(&config->arena, line.text);
    line.where = ft_arena_strdup(&config->arena, line.where);
    if (line.text == NULL || line.where == NULL) return FT_NO_MEMORY;
    if (line.directory != NULL && (line.directory = ft_arena_strdup(&config->arena, line.directory)) == NULL)
        return FT_NO_MEMORY;
    ((ft_option_line *)config->lines.list)[config->lines.count++] = line;
    return FT_OK;
}

// Sets `name` (section.key) from text, be it an option or a line that is kept.
static ft_status set_named(ft_config *config, const char *name, const char *text, const char *directory, int source,
                           const char *where) {
    const char *of_line = behind_section(config, name);
    if (of_line != NULL) name = of_line;
    const ft_section *const *others = config->others.list;
    const ft_option *option = ft_sections_option(others, ft_sections_find(others, name));
    if (option == NULL) {
        char section[128];
        const char *dot = strchr(name, '.');
        snprintf(section, sizeof section, "%.*s", dot != NULL ? (int)(dot - name) : 0, name);
        return ft_option_unknown(others, section, dot != NULL ? dot + 1 : name, where);
    }
    if (of_line != NULL && text[0] == '\0') { // takes the lines of earlier sources out
        forget_lines(config, option->name, -1);
        return FT_OK;
    }
    if (of_line != NULL) return add_line(config, (ft_option_line){option->name, text, where, directory, source});
    forget_lines(config, option->name, source);
    return ft_option_set(config, option, text, directory, where);
}

// ---- sources --------------------------------------------------------------------------------------------------------

typedef struct file_reading {
    ft_config *config;
    const char *directory;
    int depth;                  // of includes
    int keys;                   // read so far
    int lines[FT_OPTION_LIMIT]; // where each option was set, 0 for not yet
} file_reading;

static ft_status read_file(ft_config *config, const char *path, const char *where, int depth);

// What the file named here sets is older than anything in this file: so it stands before all else.
static ft_status include_file(file_reading *reading, const char *name, const char *where) {
    if (reading->keys > 1) return ft_fail(FT_INVALID, where, "include stands before all sections and options, and once");
    if (reading->depth == INCLUDE_LIMIT)
        return ft_fail(FT_INVALID, where, "more than %d files include one another: is it a circle?", INCLUDE_LIMIT);
    char *path = ft_path_absolute(&reading->config->arena, reading->directory, name);
    if (path == NULL) return ft_error_code();
    FT_TRY(read_file(reading->config, path, where, reading->depth + 1));
    reading->config->sources++; // what follows in this file is a later source
    return FT_OK;
}

static ft_status set_from_file(void *user, const char *section, const char *key, const char *value, int line,
                               const char *where) {
    file_reading *reading = user;
    reading->keys++;
    if (section[0] == '\0' && strcmp(key, "include") == 0) return include_file(reading, value, where);
    char name[128];
    bool whole = snprintf(name, sizeof name, "%s%s%s", section, section[0] == '\0' ? "" : ".", key) < (int)sizeof name;
    if (!whole) return ft_option_unknown(reading->config->others.list, section, key, where);
    int index = ft_sections_find(reading->config->others.list, name);
    if (index >= 0 && reading->lines[index] != 0)
        return ft_fail(FT_INVALID, where, "%s is set on line %d already", name, reading->lines[index]);
    if (index >= 0) reading->lines[index] = line;
    return set_named(reading->config, name, value, reading->directory, reading->config->sources, where);
}

static ft_status apply_text(ft_config *config, const char *text, size_t size, const char *label, const char *directory,
                            int depth) {
    file_reading reading = {.config = config, .directory = directory, .depth = depth};
    config->sources++;
    return ft_ini_parse(text, size, label, set_from_file, &reading);
}

ft_status ft_config_apply_text(ft_config *config, const char *text, size_t size, const char *label,
                               const char *directory) {
    return apply_text(config, text, size, label, directory, 0);
}

// `where` names who included it, NULL: the user did.
static ft_status read_file(ft_config *config, const char *path, const char *where, int depth) {
    if (where != NULL && !ft_path_exists(path)) return ft_fail(FT_INVALID, where, "there is no file %s to include", path);
    if (ft_path_is_directory(path)) {
        if (where != NULL) return ft_fail(FT_INVALID, where, "%s is a directory, not a configuration file", path);
        return ft_fail(FT_INVALID, path, "this is a directory, not a configuration file");
    }
    char *directory = ft_path_absolute(&config->arena, NULL, path);
    if (directory == NULL) return ft_error_code();
    char *slash = strrchr(directory, '/');
    slash[slash == directory] = '\0';

    char *text = NULL;
    size_t size;
    FT_TRY(ft_read_stream(path, FILE_LIMIT, &text, &size));
    ft_status status = apply_text(config, text, size, path, directory, depth);
    free(text);
    return status;
}

// A name with '=' that is no file was meant as an option, and lacks its section: its name is looked for in all of them.
static ft_status no_section(const ft_config *config, const char *word) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    return ft_option_unknown(config->others.list, "", name, word);
}

static ft_status apply_file(ft_config *config, const char *path) {
    if (strchr(path, '=') != NULL && strchr(path, '/') == NULL && !ft_path_exists(path)) return no_section(config, path);
    const char *base = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1, *dot = strrchr(base, '.');
    size_t length = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
    config->name = ft_arena_strndup(&config->arena, base, length);
    if (config->name == NULL) return ft_error_code();
    return read_file(config, path, NULL, 0);
}

ft_status ft_config_apply_override(ft_config *config, const char *override) {
    const char *equals = strchr(override, '='), *from = override, *to = equals;
    if (equals == NULL) return ft_fail(FT_INVALID, override, "an option is given as section.key=value");
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    const char *value = equals + 1 + strspn(equals + 1, " \t");
    size_t value_length = strlen(value);
    while (value_length > 0 && isspace((unsigned char)value[value_length - 1]))
        value_length--;

    char *name = ft_arena_strndup(&config->arena, from, (size_t)(to - from));
    char *text = ft_arena_strndup(&config->arena, value, value_length);
    if (name == NULL || text == NULL) return ft_error_code();
    return set_named(config, name, text, NULL, INT_MAX, override);
}

// Each a part of the next one, up to all texts.
static ft_status check_shares(const ft_config *c) {
    static const char option[] = "data.shares";
    const ft_int_list *shares = &c->data.shares;
    if (shares->count == 0) return FT_OK;
    if (c->data.share > 1) return ft_fail(FT_INVALID, option, "data.share = %lld is one of them alone; set one of the two", (long long)c->data.share);
    if (c->data.folds > 0) return ft_fail(FT_INVALID, option, "not with data.folds: data.validation or data.validation_split");
    if (c->train.seeds.count > 0) return ft_fail(FT_INVALID, option, "not with train.seeds: one train.seed");
    if (c->eval.strategy == FT_EVAL_NO) return ft_fail(FT_INVALID, option, "shares are compared by evaluations, and eval.strategy is no");
    if (shares->values[shares->count - 1] != 1) {
        ft_fail(FT_INVALID, option, "the last one is %lld, and must be 1, all texts", (long long)shares->values[shares->count - 1]);
        ft_hint("from the smallest share on: 9, 3, 1 or 16, 4, 1 or 4, 1");
        return FT_INVALID;
    }
    for (int i = 1; i < shares->count; i++) {
        const long long one = (long long)shares->values[i - 1], next = (long long)shares->values[i];
        if (one > next && one % next == 0) continue;
        ft_fail(FT_INVALID, option, "%lld before %lld: each must be a multiple of the next, or texts of a share would not be in the larger one", one, next);
        ft_hint("9, 3, 1 or 16, 4, 1 or 4, 1");
        return FT_INVALID;
    }
    return FT_OK;
}

static ft_status check_repeats(const ft_config *c) {
    if (c->data.folds == 1) return ft_fail(FT_INVALID, "data.folds", "one fold leaves nothing to train on; at least 2, or 0 for none");
    if (c->data.folds > 0 && c->data.validation[0] != '\0')
        return ft_fail(FT_INVALID, "data.folds", "every fold is a validation set of its own, and data.validation is set too");
    if (c->data.folds > 0 && c->eval.strategy == FT_EVAL_NO)
        return ft_fail(FT_INVALID, "data.folds", "folds are for evaluations, and eval.strategy is no");
    FT_TRY(check_shares(c));
    for (int i = 0; i < c->train.seeds.count; i++)
        for (int k = 0; k < i; k++)
            if (c->train.seeds.values[i] == c->train.seeds.values[k])
                return ft_fail(FT_INVALID, "train.seeds", "%lld is there twice", (long long)c->train.seeds.values[i]);
    return FT_OK;
}

// What a loss is for; the task may still be auto.
static ft_status check_loss(const ft_config *config) {
    const ft_task task = config->train.task;
    const ft_loss_choice loss = config->train.loss;
    if (!ft_task_has_loss(task, loss)) return ft_fail(FT_INVALID, "train.loss", "this is no loss of train.task = %s", ft_task_name(task));
    if (config->train.label_smoothing > 0 && (!ft_loss_smooths(loss) || !ft_task_smooths(task)))
        return ft_fail(FT_INVALID, "train.label_smoothing", "smoothing is for the cross-entropy of single_label");
    if (config->train.lr_scheduler == FT_SCHED_POLYNOMIAL && config->train.lr_end >= config->train.learning_rate)
        return ft_fail(FT_INVALID, "train.lr_end", "the polynomial schedule must end below train.learning_rate");
    return FT_OK;
}

static ft_status check_deadline(const ft_config *c) {
    double left;
    if (c->train.deadline[0] == '\0') return FT_OK;
    if (c->data.folds > 0 && c->data.fold == 0) return ft_fail(FT_INVALID, "train.deadline", "is one run's, and data.folds has several");
    if (c->train.seeds.count > 0) return ft_fail(FT_INVALID, "train.deadline", "is one run's, and train.seeds has several");
    if (c->data.shares.count > 0) return ft_fail(FT_INVALID, "train.deadline", "is one run's, and data.shares has several");
    return ft_deadline_left(c->train.deadline, "train.deadline", &left); // whether it is past is asked when it counts
}

static ft_status check_truncation(const ft_config *config) {
    ft_long_text rule;
    const char *text = config->data.truncation;
    return strcmp(text, "auto") == 0 ? FT_OK : ft_long_text_parse(text, "data.truncation", &rule);
}

// The splits of a well-known set of pictures are said here, so that all that reads a configuration sees them.
static ft_status complete_data(ft_config *config) {
    const char *paths[FT_DATA_PATHS] = {config->data.train, config->data.validation, config->data.test};
    FT_TRY(ft_data_paths_complete(paths, config->data.folds > 0 || config->data.validation_split > 0, &config->arena));
    config->data.train = paths[0];
    config->data.validation = paths[1];
    config->data.test = paths[2];
    return FT_OK;
}

ft_status ft_config_check(const ft_config *config) {
    FT_TRY(check_repeats(config));
    FT_TRY(check_loss(config));
    FT_TRY(check_truncation(config));
    FT_TRY(check_deadline(config));
    if (config->train.patience > 0 && config->eval.strategy == FT_EVAL_NO)
        return ft_fail(FT_INVALID, "train.patience", "early stopping counts evaluations, and eval.strategy is no");
    if (config->eval.batch_size == FT_AUTO && config->eval.batch_multiplier != FT_AUTO &&
        config->train.batch_size * config->eval.batch_multiplier > (1 << 20))
        return ft_fail(FT_INVALID, "eval.batch_multiplier", "%lld times a batch of %lld sequences is more than %d",
                       (long long)config->eval.batch_multiplier, (long long)config->train.batch_size, 1 << 20);
    return FT_OK;
}

ft_status ft_config_load_with(const ft_section *const *others, ft_config *config, int file_count, const char *const *files,
                              int override_count, const char *const *overrides) {
    ft_status status = ft_config_defaults_with(others, config);
    for (int i = 0; status == FT_OK && i < file_count; i++)
        status = apply_file(config, files[i]);
    for (int i = 0; status == FT_OK && i < override_count; i++)
        status = ft_config_apply_override(config, overrides[i]);
    if (status == FT_OK) status = complete_data(config);
    if (status == FT_OK) status = ft_device_list_spell_out(config);
    if (status == FT_OK) status = ft_config_check(config);
    if (status != FT_OK) ft_config_free(config);
    return status;
}

ft_status ft_config_load(ft_config *config, int file_count, const char *const *files, int override_count,
                         const char *const *overrides) {
    return ft_config_load_with(NULL, config, file_count, files, override_count, overrides);
}
