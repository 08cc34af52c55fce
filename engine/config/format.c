// format.c - values and options as text: messages, config.ini, the commented reference.
#include "engine/config/options.h"

#include "base/url.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_builder {
    char *out;
    size_t size, length;
} text_builder;

__attribute__((format(printf, 2, 3))) static void add(text_builder *b, const char *format, ...) {
    if (b->length >= b->size) return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(b->out + b->length, b->size - b->length, format, args);
    va_end(args);
    if (n > 0) b->length += (size_t)n;
}

// The fewest digits that read back as the same number; 5e-5 rather than 5e-05.
static void format_float(double value, char *out, size_t size) {
    if (value == floor(value) && fabs(value) < 1e15) {
        snprintf(out, size, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    char *e = strchr(out, 'e');
    if (e == NULL) return;
    char *digits = e + 1 + (e[1] == '+' || e[1] == '-'), *from = digits + strspn(digits, "0");
    char *to = e[1] == '-' ? digits : e + 1;
    memmove(to, from, strlen(from) + 1);
}

void ft_format_size(int64_t bytes, char *out, size_t size) {
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {{"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30}, {"TiB", 1LL << 40},
                 {"KB", 1000},       {"MB", 1000000},    {"GB", 1000000000}, {"TB", 1000000000000}};
    char text[40];
    snprintf(out, size, "%lld", (long long)bytes);
    for (size_t i = 0; bytes != 0 && i < sizeof units / sizeof units[0]; i++) {
        if (bytes % units[i].bytes != 0) continue;
        snprintf(text, sizeof text, "%lld%s", (long long)(bytes / units[i].bytes), units[i].name);
        if (strlen(text) < strlen(out)) snprintf(out, size, "%s", text);
    }
}

static void add_int_bounds(text_builder *b, const ft_option *option) {
    add(b, " at least %lld", (long long)option->least);
    if (option->most != INT64_MAX) add(b, ", at most %lld", (long long)option->most);
}

// In the largest unit that it is a whole number of.
static void format_duration(double seconds, char *out, size_t size) {
    static const struct {
        char name;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    int unit = 0;
    while (unit < 3 && fmod(seconds, units[unit].seconds) != 0)
        unit++;
    format_float(seconds / units[unit].seconds, out, size - 1);
    size_t length = strlen(out);
    if (seconds != 0) out[length] = units[unit].name, out[length + 1] = '\0';
}

const char *ft_option_takes(const ft_option *option, char *out, size_t size) {
    text_builder b = {out, size, 0};
    char low[40], high[40];
    out[0] = '\0';
    if (option->automatic && option->type != FT_OPTION_EVERY_K) add(&b, "auto or ");
    switch (option->type) {
    case FT_OPTION_INT:
        add(&b, "a whole number,");
        add_int_bounds(&b, option);
        break;
    case FT_OPTION_FLOAT:
        format_float(option->low, low, sizeof low);
        format_float(option->high, high, sizeof high);
        add(&b, "a number");
        if (isfinite(option->low)) add(&b, ", %s %s", option->low_open ? "above" : "at least", low);
        if (isfinite(option->high)) add(&b, ", %s %s", option->high_open ? "below" : "at most", high);
        break;
    case FT_OPTION_BOOL: add(&b, "true or false"); break;
    case FT_OPTION_CHOICE:
    case FT_OPTION_NAME:
        for (const ft_option_choice *choice = option->choices; choice->name != NULL; choice++)
            add(&b, "%s%s", choice == option->choices ? "" : choice[1].name == NULL && option->numbered == NULL ? " or " : ", ", choice->name);
        if (option->numbered != NULL) add(&b, " or %sN", option->numbered);
        if (option->listed) add(&b, ", or several with commas between them");
        break;
    case FT_OPTION_STRING: add(&b, "a string"); break;
    case FT_OPTION_PATH:
        for (const char *word = option->literal; word != NULL && *word != '\0'; word += strspn(word, " ")) {
            const int length = (int)strcspn(word, " ");
            add(&b, "%.*s%s", length, word, word[length] == '\0' ? " or " : ", ");
            word += length;
        }
        if (option->scheme != NULL) add(&b, "%s and ", option->scheme);
        add(&b, "a path");
        break;
    case FT_OPTION_SIZE:
        ft_format_size(option->least, low, sizeof low);
        ft_format_size(option->most, high, sizeof high);
        add(&b, "a size, at least %s, at most %s%s", low, high, option->share ? ", or a share as 80%" : "");
        break;
    case FT_OPTION_LIST:
        add(&b, "whole numbers separated by commas, each");
        add_int_bounds(&b, option);
        break;
    case FT_OPTION_EVERY_K:
        add(&b, "%soff, on or a whole number,", option->automatic ? "auto, " : "");
        add_int_bounds(&b, option);
        break;
    case FT_OPTION_DURATION:
        format_duration(option->low, low, sizeof low);
        add(&b, "a time as 30s, 10m, 2h or 1d, %s%s", option->low > 0 ? "at least " : "or ", low);
        break;
    }
    return out;
}

static const char *value_text(const void *values, const ft_option *option, char scratch[FT_OPTION_TEXT_LIMIT]) {
    const void *field = (const char *)values + option->offset;
    const size_t size = FT_OPTION_TEXT_LIMIT;
    switch (option->type) {
    case FT_OPTION_STRING:
        if (option->secret && strncmp(*(const char *const *)field, "file:", 5) != 0) return "";
        return *(const char *const *)field;
    case FT_OPTION_PATH: {
        const char *path = *(const char *const *)field;
        if (option->scheme == NULL || !ft_url_is_postgres(path)) return path;
        ft_arena arena = {0};
        const char *shown = ft_url_shown(&arena, path); // without a password
        snprintf(scratch, size, "%s", shown != NULL ? shown : "");
        ft_arena_free(&arena);
        break;
    }
    case FT_OPTION_NAME: return *(const char *const *)field;
    case FT_OPTION_INT: {
        int64_t value = *(const int64_t *)field;
        if (value == FT_AUTO) return "auto";
        snprintf(scratch, size, "%lld", (long long)value);
        break;
    }
    case FT_OPTION_FLOAT: {
        double value = *(const double *)field;
        if (isnan(value)) return "auto";
        format_float(value, scratch, size);
        break;
    }
    case FT_OPTION_BOOL: return *(const bool *)field ? "true" : "false";
    case FT_OPTION_CHOICE: {
        int value;
        memcpy(&value, field, sizeof value);
        const ft_option_choice *choice = option->choices;
        while (choice->name != NULL && choice->value != value)
            choice++;
        return choice->name != NULL ? choice->name : "?";
    }
    case FT_OPTION_SIZE: {
        int64_t value = *(const int64_t *)field;
        if (value == 0) return "auto";
        if (value < 0) snprintf(scratch, size, "%.6g%%", (double)-value / 1e4);
        else ft_format_size(value, scratch, size);
        break;
    }
    case FT_OPTION_LIST: {
        const ft_int_list *list = field;
        text_builder b = {scratch, size, 0};
        scratch[0] = '\0';
        for (int i = 0; i < list->count; i++)
            add(&b, "%s%lld", i > 0 ? ", " : "", (long long)list->values[i]);
        break;
    }
    case FT_OPTION_EVERY_K: {
        int64_t value = *(const int64_t *)field;
        if (value == FT_AUTO) return "auto";
        if (value <= 1) return value == 1 ? "on" : "off";
        snprintf(scratch, size, "%lld", (long long)value);
        break;
    }
    case FT_OPTION_DURATION: format_duration(*(const double *)field, scratch, size); break;
    }
    return scratch;
}

const char *ft_option_get(const ft_config *config, const ft_option *option, char scratch[FT_OPTION_TEXT_LIMIT]) {
    return value_text(ft_config_values(config, option->section), option, scratch);
}

ft_status ft_option_text(const ft_config *config, int index, char *out, size_t size) {
    if (index < 0 || index >= ft_option_count()) return ft_fail(FT_FAILED, NULL, "there is no option number %d", index);
    char scratch[FT_OPTION_TEXT_LIMIT];
    const char *text = ft_option_get(config, ft_option_at(index), scratch);
    size_t length = strlen(text);
    if (length >= size)
        return ft_fail(FT_FAILED, ft_option_name(index), "the value has %zu bytes, there is room for %zu", length, size);
    memcpy(out, text, length + 1);
    return FT_OK;
}

static ft_status finished(FILE *out) {
    if (fflush(out) != 0 || ferror(out)) return ft_fail_errno(FT_FAILED, errno, NULL, "cannot write the configuration");
    return FT_OK;
}

static void write_value(FILE *out, const char *key, const char *text) {
    fprintf(out, "%s =%s%s\n", key, text[0] == '\0' ? "" : " ", text);
}

const ft_section *ft_section_of_lines(const ft_section *const *others) {
    for (; others != NULL && *others != NULL; others++)
        if ((*others)->lines) return *others;
    return NULL;
}

ft_status ft_config_write(const ft_config *config, bool all, bool skip_output_dir, FILE *out) {
    char scratch[FT_OPTION_TEXT_LIMIT];
    const ft_section *const *others = config->others.list, *section = NULL;
    const ft_option *option;
    for (int i = 0; (option = ft_sections_option(others, i)) != NULL; i++) {
        bool elsewhere = strcmp(option->name, "output.dir") == 0 || strcmp(option->name, "output.exists") == 0;
        if (skip_output_dir && (elsewhere || option->section->about != NULL)) continue;
        const char *text = ft_option_get(config, option, scratch);
        if (!all && strcmp(text, option->initial) == 0) continue;
        if (option->section != section) {
            fprintf(out, "%s[%s]\n", section == NULL ? "" : "\n", option->section->name);
            section = option->section;
        }
        write_value(out, ft_option_key(option), text);
    }
    const ft_section *keeper = ft_section_of_lines(others);
    if (!skip_output_dir && keeper != NULL && config->lines.count > 0) {
        fprintf(out, "%s[%s]\n", section == NULL ? "" : "\n", keeper->name);
        for (int i = 0; i < config->lines.count; i++)
            write_value(out, config->lines.list[i].option, config->lines.list[i].text);
    }
    return finished(out);
}

ft_status ft_section_write(const ft_section *section, const void *values, FILE *out) {
    char scratch[FT_OPTION_TEXT_LIMIT];
    fprintf(out, "[%s]\n", section->name);
    for (int i = 0; i < section->count; i++)
        write_value(out, ft_option_key(&section->rows[i]), value_text(values, &section->rows[i], scratch));
    return finished(out);
}
