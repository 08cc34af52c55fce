#include "engine/commands/commands.h"

#include "base/log.h"
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

static ft_status unknown_flag(const char *command, const char *word, size_t length, int flag_count, const ft_flag *flags) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), word);
    const char *names[32];
    int count = 0;
    for (; count < flag_count && count < 28; count++) names[count] = flags[count].name;
    names[count++] = "--quiet";
    names[count++] = "--verbose";
    names[count++] = "--help";
    const char *nearest = ft_nearest(name, count, names);
    ft_fail(FT_INVALID, command, "unknown option %s", name);
    if (nearest != NULL) ft_hint("did you mean %s?", nearest);
    else ft_hint("ftengine help %s lists the options", command);
    return FT_INVALID;
}

// Handles one word that begins with '-'. *used: how many words it took.
static ft_status take_flag(const char *command, int argc, char **argv, int flag_count, const ft_flag *flags, int *used) {
    const char *word = argv[0], *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    *used = 1;
    if (strcmp(word, "--quiet") == 0) return ft_log_set_level(FT_LOG_QUIET), FT_OK;
    if (strcmp(word, "--verbose") == 0) return ft_log_set_level(FT_LOG_VERBOSE), FT_OK;
    for (int i = 0; i < flag_count; i++) {
        const ft_flag *f = &flags[i];
        if (strlen(f->name) != length || strncmp(f->name, word, length) != 0) continue;
        if (f->present != NULL) *f->present = true;
        if (f->value == NULL) return equals == NULL ? FT_OK : ft_fail(FT_INVALID, command, "%s takes no value", f->name);
        if (equals != NULL) *f->value = equals + 1;
        else if (argc > 1) *f->value = argv[1], *used = 2;
        else return ft_fail(FT_INVALID, command, "%s needs a value", f->name);
        return FT_OK;
    }
    return unknown_flag(command, word, length, flag_count, flags);
}

// "section.key=value": a word with a dot in front of its first '='. A file name with both is written ./name.
static bool is_override(const char *word) {
    const char *equals = strchr(word, '=');
    const char *dot = strchr(word, '.'), *slash = strchr(word, '/');
    return equals != NULL && dot != NULL && dot < equals && (slash == NULL || slash > equals);
}

// A value below 0, and no flag. -inf is one of an objective, as Python writes it.
static bool is_negative(const char *word) {
    if (word[0] != '-') return false;
    return isdigit((unsigned char)word[1]) || word[1] == '.' || strcasecmp(word + 1, "inf") == 0 || strcasecmp(word + 1, "infinity") == 0;
}

ft_status ft_parse_words(const char *command, int argc, char **argv, int flag_count, const ft_flag *flags, ft_arena *arena,
                         ft_words *words) {
    *words = (ft_words){0};
    words->plain = ft_arena_alloc(arena, (size_t)(argc + 1) * sizeof *words->plain);
    words->overrides = ft_arena_alloc(arena, (size_t)(argc + 1) * sizeof *words->overrides);
    if (words->plain == NULL || words->overrides == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < argc;) {
        if (argv[i][0] == '-' && argv[i][1] != '\0' && !is_negative(argv[i])) {
            int used;
            FT_TRY(take_flag(command, argc - i, argv + i, flag_count, flags, &used));
            i += used;
            continue;
        }
        if (is_override(argv[i])) words->overrides[words->override_count++] = argv[i];
        else words->plain[words->plain_count++] = argv[i];
        i++;
    }
    return FT_OK;
}

ft_status ft_words_set(ft_words *words, ft_arena *arena, const char *option, const char *value) {
    if (value == NULL) return FT_OK;
    const char *word = ft_arena_format(arena, "%s=%s", option, value);
    if (word == NULL) return FT_NO_MEMORY;
    words->overrides[words->override_count++] = word;
    return FT_OK;
}

ft_status ft_check_output(const char *data, const char *output, const char *what) {
    struct stat in, out;
    if (output == NULL || stat(data, &in) != 0 || stat(output, &out) != 0) return FT_OK;
    if (in.st_dev != out.st_dev || in.st_ino != out.st_ino) return FT_OK;
    ft_fail(FT_INVALID, "--output", "%s holds the texts: %s would take their place", output, what);
    ft_hint("give another file");
    return FT_INVALID;
}
