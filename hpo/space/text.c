// text.c - rules as text: lines that ft_space_read reads back, and the same with what may change on a move (where
// paths lie) left out.
#include "engine/config/options.h"
#include "hpo/space/grammar.h"
#include "hpo/space/space.h"
#include "hpo/storage/pyjson.h"

#include <stdlib.h>
#include <string.h>

static void write_word(FILE *out, const ft_option *option, const char *text) {
    if (option->type == FT_OPTION_LIST)
        fprintf(out, "[%s]", text);
    else if (!ft_spec_needs_quotes(text))
        fputs(text, out);
    else
        fprintf(out, strchr(text, '"') == NULL ? "\"%s\"" : "'%s'", text);
}

static const char *portable(const ft_option *option, const char *text) {
    const char *slash = option->type == FT_OPTION_PATH ? strrchr(text, '/') : NULL;
    return slash != NULL && slash[1] != '\0' ? slash + 1 : text;
}

static void write_choice(FILE *out, const ft_space_rule *rule, int index, bool absolute) {
    const ft_option *option = ft_option_at(rule->option);
    const ft_choice *stored = &rule->distribution.choices[index];
    bool path = option->type == FT_OPTION_PATH && !absolute;
    write_word(out, option, path ? stored->text : rule->choices[index]);
}

static void write_range(FILE *out, const ft_distribution *d) {
    char low[32], high[32], step[32];
    ft_shortest_double(d->low, low);
    ft_shortest_double(d->high, high);
    ft_shortest_double(d->step, step);
    fprintf(out, "%s(%s, %s", d->kind == FT_INT ? "int" : "float", low, high);
    if (d->log) fputs(", log", out);
    if (!d->log && d->step > (d->kind == FT_INT ? 1 : 0)) fprintf(out, ", step=%s", step);
    fputc(')', out);
}

static void write_test(FILE *out, const ft_space_test *test, bool absolute) {
    static const char *const signs[] = {[FT_IS_ONE_OF] = "=",   [FT_IS_NONE_OF] = "!=", [FT_IS_BELOW] = "<",
                                        [FT_IS_AT_MOST] = "<=", [FT_IS_ABOVE] = ">",    [FT_IS_AT_LEAST] = ">="};
    const ft_option *option = ft_option_at(test->option);
    bool several = test->count > 1;
    fprintf(out, "%s ", option->name);
    if (several)
        fputs(test->comparison == FT_IS_ONE_OF ? "in (" : "not in (", out);
    else
        fprintf(out, "%s ", signs[test->comparison]);
    for (int i = 0; i < test->count; i++) {
        if (i > 0) fputs(", ", out);
        write_word(out, option, absolute ? test->values[i] : portable(option, test->values[i]));
    }
    if (several) fputc(')', out);
}

static void write_rule(FILE *out, const ft_space_rule *rule, bool absolute) {
    const ft_option *option = ft_option_at(rule->option);
    if (rule->fixed != NULL)
        write_word(out, option, absolute ? rule->fixed : portable(option, rule->fixed));
    else if (rule->distribution.kind != FT_CATEGORICAL)
        write_range(out, &rule->distribution);
    else {
        fputs("choice(", out);
        for (int i = 0; i < rule->distribution.choice_count; i++) {
            if (i > 0) fputs(", ", out);
            write_choice(out, rule, i, absolute);
        }
        fputc(')', out);
    }
    for (int i = 0; i < rule->test_count; i++) {
        fputs(i == 0 ? " if " : " and ", out);
        write_test(out, &rule->tests[i], absolute);
    }
}

ft_status ft_space_write(const ft_space *space, FILE *out) {
    fputs("[space]\n", out);
    for (int i = 0; i < space->count; i++) {
        fprintf(out, "%s = ", ft_option_at(space->rules[i].option)->name);
        write_rule(out, &space->rules[i], true);
        fputc('\n', out);
    }
    return ferror(out) ? ft_fail(FT_FAILED, NULL, "cannot write the search space") : FT_OK;
}

const char *ft_space_rule_text(const ft_space_rule *rule, ft_arena *arena) {
    ft_text_stream stream;
    char *text = NULL;
    if (ft_text_open(&stream) != FT_OK) return NULL;
    write_rule(stream.file, rule, false);
    if (ft_text_close(&stream, &text) != FT_OK) return NULL;
    const char *kept = ft_arena_strdup(arena, text);
    free(text);
    return kept;
}
