// parse.c - one value of an option, from the text that a person wrote.
#include "base/files.h"
#include "base/nearest.h"
#include "base/url.h"
#include "engine/config/options.h"
#include "engine/hub/cache.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// What a message repeats of a value: not too much, and nothing that moves a terminal's cursor.
static const char *shown(const char *text, char out[84]) {
    size_t n = 0;
    for (; text[n] != '\0' && n < 80; n++)
        out[n] = iscntrl((unsigned char)text[n]) ? '?' : text[n];
    strcpy(out + n, text[n] == '\0' ? "" : "...");
    return out;
}

static ft_status refuse(const ft_option *option, const char *text, const char *where) {
    static const char *const searched[] = {"float(", "int(", "choice("};
    char takes[512], value[84];
    ft_option_takes(option, takes, sizeof takes);
    if (text[0] == '\0') return ft_fail(FT_INVALID, where, "%s has no value; it takes %s", option->name, takes);
    ft_fail(FT_INVALID, where, "%s takes %s; got '%s'", option->name, takes, shown(text, value));
    for (size_t i = 0; i < sizeof searched / sizeof *searched; i++)
        if (strncmp(text, searched[i], strlen(searched[i])) == 0)
            ft_hint("what is searched stands in [space], which `ftengine tune` reads: %s = %s", option->name, value);
    return FT_INVALID;
}

static bool is_auto(const ft_option *option, const char *text) {
    return option->automatic && strcasecmp(text, "auto") == 0;
}

// Decimal digits with an optional sign, nothing else; false also when it does not fit.
static bool whole_number(const char *text, const char *end, int64_t *out) {
    const char *digits = text + (text < end && (*text == '+' || *text == '-'));
    if (digits == end) return false;
    for (const char *c = digits; c < end; c++)
        if (!isdigit((unsigned char)*c)) return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == 0;
}

// Decimal notation only: strtod would also take nan, inf, hexadecimal and white space.
static bool decimal_number(const char *text, double *out) {
    if (text[0] == '\0' || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
    char *end;
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

static bool truth(const char *text, bool *out) {
    static const struct {
        const char *name;
        bool value;
    } words[] = {{"true", true}, {"false", false}, {"yes", true}, {"no", false},
                 {"on", true},   {"off", false},   {"1", true},   {"0", false}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i].name) == 0) {
            *out = words[i].value;
            return true;
        }
    return false;
}

static bool in_bounds(const ft_option *option, double value) {
    return (option->low_open ? value > option->low : value >= option->low) &&
           (option->high_open ? value < option->high : value <= option->high);
}

static bool parse_size(const ft_option *option, const char *text, int64_t *out) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    size_t length = strspn(text, "0123456789.");
    const char *unit = text + length + strspn(text + length, " \t");
    char digits[40];
    if (length == 0 || length >= sizeof digits) return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double value;
        if (strcasecmp(unit, units[i].name) != 0) continue;
        if (units[i].bytes == 1) { // plain bytes are kept exactly, also beyond a double's 53 bits
            if (!whole_number(text, text + length, out)) return false;
        } else {
            if (!decimal_number(digits, &value) || value * units[i].bytes > (double)option->most) return false;
            *out = (int64_t)(value * units[i].bytes);
        }
        return *out >= option->least && *out <= option->most; // 0 is how auto is kept, and nobody may say it
    }
    return false;
}

static ft_status set_size(const ft_option *option, const char *text, const char *where, int64_t *out) {
    if (is_auto(option, text)) {
        *out = 0;
        return FT_OK;
    }
    int64_t value = 0;
    size_t length = strlen(text);
    if (option->share && length > 1 && text[length - 1] == '%') {
        char *end;
        double percent = strtod(text, &end);
        if (end != text + length - 1 || !(percent > 0) || percent > 100) return refuse(option, text, where);
        *out = -llround(percent * 1e4);
        return FT_OK;
    }
    if (!parse_size(option, text, &value)) {
        refuse(option, text, where);
        if (length > 0 && strchr("kmgtKMGT", text[length - 1]) != NULL)
            ft_hint("%s could be %siB (1024s) or %sB (1000s): write which", text, text, text);
        return FT_INVALID;
    }
    *out = value;
    return FT_OK;
}

static ft_status set_duration(const ft_option *option, const char *text, const char *where, double *out) {
    static const struct {
        char name;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    size_t length = strspn(text, "0123456789."), unit = 0;
    char digits[40];
    double value = 0;
    bool fine = length > 0 && length < sizeof digits;
    if (fine) {
        memcpy(digits, text, length);
        digits[length] = '\0';
        fine = decimal_number(digits, &value);
    }
    while (unit < 4 && text[length] != units[unit].name)
        unit++;
    if (fine && unit < 4 && text[length + 1] == '\0') value *= units[unit].seconds;
    else if (value != 0 || text[length] != '\0') fine = false; // only 0 needs no unit
    if (!fine || !in_bounds(option, value)) {
        refuse(option, text, where);
        if (fine || (length > 0 && text[length] == '\0')) ft_hint("write the unit too: 30s, 10m, 2h or 1d");
        return FT_INVALID;
    }
    *out = value;
    return FT_OK;
}

static ft_status set_every_k(const ft_option *option, const char *text, const char *where, int64_t *out) {
    bool on;
    int64_t value;
    if (is_auto(option, text))
        value = FT_AUTO;
    else if (truth(text, &on))
        value = on ? 1 : 0;
    else if (!whole_number(text, text + strlen(text), &value) || value < option->least || value > option->most)
        return refuse(option, text, where);
    *out = value;
    return FT_OK;
}

// "cuda:3", where the table says that names go on like that.
static bool is_numbered(const ft_option *option, const char *text) {
    size_t length = option->numbered != NULL ? strlen(option->numbered) : 0;
    if (length == 0 || strncmp(text, option->numbered, length) != 0) return false;
    const size_t digits = strlen(text + length);
    return digits >= 1 && digits <= 3 && strspn(text + length, "0123456789") == digits;
}

// "cuda:all", "cpu,cpu" or "cuda:0,1": of names but the first, which is no device.
static bool is_list_of_names(const ft_option *option, const char *text) {
    if (!option->listed) return false;
    const size_t prefix = strlen(option->numbered);
    if (strncmp(text, option->numbered, prefix) == 0 && strcmp(text + prefix, "all") == 0) return true;
    if (strchr(text, ',') == NULL) return false;
    const bool is_numbered_first = strncmp(text, option->numbered, prefix) == 0;
    for (const char *at = text;; at++) {
        char name[32];
        bool known = false;
        at += strspn(at, " ");
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        for (size_t end = strlen(name); end > 0 && name[end - 1] == ' ';) name[--end] = '\0';
        for (const ft_option_choice *choice = option->choices + 1; choice->name != NULL; choice++) known = known || strcmp(choice->name, name) == 0;
        const bool follows = at != text && is_numbered_first && name[0] != '\0' && name[strspn(name, "0123456789")] == '\0' && strlen(name) <= 3;
        if (!known && !follows && !is_numbered(option, name)) return false;
        at += length;
        if (*at == '\0') return true;
    }
}

// auc for auroc, acc for accuracy: the first letter, and the others in their order.
static bool is_short_for(const char *text, const char *name) {
    if (strlen(text) < 2 || tolower((unsigned char)text[0]) != tolower((unsigned char)name[0])) return false;
    for (; *name != '\0' && *text != '\0'; name++) text += tolower((unsigned char)*name) == tolower((unsigned char)*text);
    return *text == '\0';
}

static ft_status find_choice(const ft_option *option, const char *text, const char *where, const ft_option_choice **out) {
    const char *names[FT_OPTION_LIMIT];
    int count = 0;
    for (const ft_option_choice *choice = option->choices; choice->name != NULL; choice++) {
        if (strcasecmp(choice->name, text) == 0) {
            *out = choice;
            return FT_OK;
        }
        names[count++] = choice->name;
    }
    refuse(option, text, where);
    // One letter of three is another word: gpu is no misspelt cpu.
    const char *near = strlen(text) > 3 ? ft_nearest(text, count, names) : NULL;
    const bool guess = near == NULL;
    for (int i = 0; guess && i < count; i++)
        if (is_short_for(text, names[i]) && (near == NULL || strlen(names[i]) < strlen(near))) near = names[i];
    if (near != NULL) ft_hint("did you mean %s?", near);
    return FT_INVALID;
}

static ft_status set_list(ft_config *config, const ft_option *option, const char *text, const char *where,
                          ft_int_list *out) {
    int64_t values[FT_LIST_LIMIT];
    int count = 0;
    for (const char *at = text; *at != '\0'; count++) {
        const char *comma = at + strcspn(at, ","), *end = comma;
        while (at < end && isblank((unsigned char)*at))
            at++;
        while (end > at && isblank((unsigned char)end[-1]))
            end--;
        if (count == FT_LIST_LIMIT)
            return ft_fail(FT_INVALID, where, "%s has more than %d members", option->name, FT_LIST_LIMIT);
        int64_t value;
        if (!whole_number(at, end, &value) || value < option->least || value > option->most ||
            (*comma == ',' && comma[1] == '\0'))
            return refuse(option, text, where);
        values[count] = value;
        at = comma + (*comma == ',');
    }
    int64_t *kept = NULL;
    if (count > 0) {
        kept = ft_arena_alloc(&config->arena, (size_t)count * sizeof *kept);
        if (kept == NULL) return ft_error_code();
        memcpy(kept, values, (size_t)count * sizeof *kept);
    }
    *out = (ft_int_list){.count = count, .values = kept};
    return FT_OK;
}

// What a configuration file could not give back: config.ini of a run directory has to be able to hold every value.
ft_status ft_check_storable(const char *name, const char *text, size_t limit, const char *where) {
    size_t length = strlen(text);
    char value[84];
    if (length >= limit)
        return ft_fail(FT_INVALID, where, "%s is too long (%zu bytes; at most %zu)", name, length, limit - 1);
    for (size_t i = 0; i < length; i++) {
        bool comment = (text[i] == ';' || text[i] == '#') && (i == 0 || isspace((unsigned char)text[i - 1]));
        if (comment || iscntrl((unsigned char)text[i]))
            return ft_fail(FT_INVALID, where, "%s cannot hold %s: '%s'", name,
                           comment ? "a ; or # that begins a word, which starts a comment" : "control characters",
                           shown(text, value));
    }
    if (length > 0 && (isspace((unsigned char)text[0]) || isspace((unsigned char)text[length - 1])))
        return ft_fail(FT_INVALID, where, "%s cannot begin or end with white space: '%s'", name,
                       shown(text, value));
    return FT_OK;
}

static ft_status set_string(ft_config *config, const ft_option *option, const char *text, const char *where,
                            const char **out) {
    FT_TRY(ft_check_storable(option->name, text, FT_STRING_LIMIT, where));
    const char *kept = ft_arena_strdup(&config->arena, text);
    if (kept == NULL) return ft_error_code();
    *out = kept;
    return FT_OK;
}

// The length of a name's path, behind which there is nothing or #NAME; 0: it is no file of these.
static size_t path_length(const ft_option *option, const char *name, size_t length) {
    size_t scheme;
    if (ft_url_kind_of(name, &scheme) != FT_URL_FILE || scheme > 0) return 0;
    const char *hash = memchr(name, '#', length);
    if (hash != NULL) length = (size_t)(hash - name);
    for (const char *end = option->files; *end != '\0'; end += strspn(end, " ")) {
        const size_t here = strcspn(end, " ");
        if (length > here && strncmp(name + length - here, end, here) == 0) return length;
        end += here;
    }
    return 0;
}

// Names with commas between them, of which those that are files begin at `directory`.
static ft_status set_names(ft_config *config, const ft_option *option, const char *text, const char *directory,
                           const char *where, const char **out) {
    FT_TRY(ft_check_storable(option->name, text, FT_PATH_LIMIT, where));
    const char *kept = "";
    for (const char *at = text;; at++) {
        at += strspn(at, " \t");
        const size_t whole_length = strcspn(at, ",");
        size_t length = whole_length;
        while (length > 0 && isspace((unsigned char)at[length - 1]))
            length--;
        if (length == 0 && *text != '\0') // joined below it would be told as white space at the end
            return ft_fail(FT_INVALID, where, "%s has nothing before, between or behind commas: '%.200s'", option->name, text);
        const char *name = ft_arena_strndup(&config->arena, at, length);
        const size_t path = name != NULL ? path_length(option, name, length) : 0;
        if (path > 0) {
            const char *whole = ft_arena_strndup(&config->arena, at, path);
            whole = whole != NULL ? ft_path_absolute(&config->arena, directory, whole) : NULL;
            name = whole != NULL ? ft_arena_format(&config->arena, "%s%s", whole, name + path) : NULL;
        }
        if (name != NULL) kept = ft_arena_format(&config->arena, "%s%s%s", kept, at > text ? ", " : "", name);
        if (name == NULL || kept == NULL) return ft_error_code();
        at += whole_length;
        if (*at == '\0') break;
    }
    FT_TRY(ft_check_storable(option->name, kept, FT_PATH_LIMIT, where));
    *out = kept;
    return FT_OK;
}

// "microsoft/deberta-v3-base" where there is no such directory: a name, which stays as it is. Made absolute it could not be
// told from a mistyped path, and a path must not find a model that is only called like its end.
static bool is_model_name(ft_config *config, const ft_option *option, const char *text, const char *directory) {
    if (!option->hub_name) return false;
    ft_hub_name name;
    ft_error error;
    ft_error_save(&error); // that it is no name is no news, and must not hide what went wrong before
    if (ft_hub_name_parse(text, &config->arena, &name) != FT_OK) {
        ft_error_restore(&error);
        return false;
    }
    const char *path = ft_path_absolute(&config->arena, directory, text);
    return path != NULL && !ft_path_exists(path);
}

static bool is_literal(const ft_option *option, const char *text) {
    const size_t length = strlen(text);
    for (const char *word = option->literal; word != NULL && *word != '\0'; word += strspn(word, " ")) {
        const size_t here = strcspn(word, " ");
        if (here == length && strncmp(word, text, length) == 0) return true;
        word += here;
    }
    return false;
}

static ft_status set_path(ft_config *config, const ft_option *option, const char *text, const char *directory,
                          const char *where, const char **out) {
    FT_TRY(ft_check_storable(option->name, text, FT_PATH_LIMIT, where));
    bool as_is = text[0] == '\0' || is_literal(option, text);
    const char *scheme = "", *path = text;
    if (option->scheme != NULL && strncmp(text, option->scheme, strlen(option->scheme)) == 0) {
        scheme = option->scheme;
        path += strlen(scheme);
    } else if (option->scheme != NULL && strncmp(text, "journal:", 8) == 0) {
        scheme = "journal:";
        path += strlen(scheme);
    }
    // A URL of another kind, and what is no file, are for those to refuse who would open them.
    if (option->scheme != NULL) as_is = *path == '\0' || *path == ':' || strstr(path, "://") != NULL;
    as_is |= is_model_name(config, option, text, directory);
    const char *kept = as_is ? text : ft_path_absolute(&config->arena, directory, path);
    if (kept != NULL) kept = ft_arena_format(&config->arena, "%s%s", as_is ? "" : scheme, kept);
    if (kept == NULL) return ft_error_code();
    FT_TRY(ft_check_storable(option->name, kept, FT_PATH_LIMIT, where)); // the directory's name is part of it now
    *out = kept;
    return FT_OK;
}

ft_status ft_option_set(ft_config *config, const ft_option *option, const char *text, const char *directory,
                        const char *where) {
    void *values = (void *)ft_config_values(config, option->section), *field = (char *)values + option->offset;
    if (values == NULL) return ft_fail(FT_FAILED, where, "[%s] is no section of this configuration", option->section->name);
    switch (option->type) {
    case FT_OPTION_INT: {
        int64_t value = FT_AUTO;
        if (!is_auto(option, text) &&
            (!whole_number(text, text + strlen(text), &value) || value < option->least || value > option->most))
            return refuse(option, text, where);
        *(int64_t *)field = value;
        return FT_OK;
    }
    case FT_OPTION_FLOAT: {
        double value = NAN;
        if (!is_auto(option, text) && (!decimal_number(text, &value) || !in_bounds(option, value)))
            return refuse(option, text, where);
        *(double *)field = value;
        return FT_OK;
    }
    case FT_OPTION_BOOL: return truth(text, field) ? FT_OK : refuse(option, text, where);
    case FT_OPTION_CHOICE: {
        const ft_option_choice *choice;
        FT_TRY(find_choice(option, text, where, &choice));
        memcpy(field, &choice->value, sizeof choice->value); // enums of several types, all as wide as an int
        return FT_OK;
    }
    case FT_OPTION_NAME: {
        const ft_option_choice *choice;
        if (is_numbered(option, text) || is_list_of_names(option, text)) return set_string(config, option, text, where, field);
        FT_TRY(find_choice(option, text, where, &choice));
        *(const char **)field = choice->name;
        return FT_OK;
    }
    case FT_OPTION_STRING:
        return option->files != NULL ? set_names(config, option, text, directory, where, field)
                                     : set_string(config, option, text, where, field);
    case FT_OPTION_PATH: return set_path(config, option, text, directory, where, field);
    case FT_OPTION_SIZE: return set_size(option, text, where, field);
    case FT_OPTION_LIST: return set_list(config, option, text, where, field);
    case FT_OPTION_EVERY_K: return set_every_k(option, text, where, field);
    case FT_OPTION_DURATION: return set_duration(option, text, where, field);
    }
    return ft_fail(FT_FAILED, where, "%s has no type", option->name);
}
