// plan.c - `ftengine plan`: the memory of a run before it starts.
#include "engine/commands/plan/command.h"

#include "base/log.h"
#include "engine/commands/commands.h"
#include "engine/config/options.h"

#include <stdlib.h>
#include <string.h>

typedef struct plan_words {
    const char *memory, *gpu, *labels, *svg, *devices, *link, *channels;
    bool json, csv, table;
    const char **sweeps;
    int sweep_count;
    ft_words words;
} plan_words;

// --sweep may be given many times, which the common parser has no place for: takes them out of argv.
static ft_status take_sweeps(int *argc, char **argv, ft_arena *arena, plan_words *w) {
    static const char flag[] = "--sweep";
    int kept = 0;
    w->sweeps = ft_arena_alloc(arena, (size_t)(*argc + 1) * sizeof *w->sweeps);
    if (w->sweeps == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], flag) == 0 && i + 1 < *argc)
            w->sweeps[w->sweep_count++] = argv[++i];
        else if (strncmp(argv[i], "--sweep=", sizeof flag) == 0)
            w->sweeps[w->sweep_count++] = argv[i] + sizeof flag;
        else
            argv[kept++] = argv[i];
    }
    *argc = kept;
    return FT_OK;
}

static ft_status parse(int argc, char **argv, ft_arena *arena, plan_words *w) {
    const char *sweep; // only "--sweep" as the last word comes here, to be told that it needs a value
    const ft_flag flags[] = {
        {"--memory", &w->memory, NULL}, {"--gpu", &w->gpu, NULL}, {"--labels", &w->labels, NULL},
        {"--json", NULL, &w->json},     {"--csv", NULL, &w->csv}, {"--table", NULL, &w->table},
        {"--sweep", &sweep, NULL},      {"--svg", &w->svg, NULL}, {"--devices", &w->devices, NULL},
        {"--link-speed", &w->link, NULL}, {"--channels", &w->channels, NULL},
    };
    FT_TRY(take_sweeps(&argc, argv, arena, w));
    FT_TRY(ft_parse_words("plan", argc, argv, sizeof flags / sizeof flags[0], flags, arena, &w->words));
    if (w->words.plain_count == 0 && w->words.override_count == 0) {
        ft_fail(FT_INVALID, "plan", "no configuration given");
        ft_hint("ftengine plan CONFIG.ini, or ftengine plan model.path=bert-base-uncased; ftengine help plan");
        return FT_INVALID;
    }
    if (w->memory != NULL && w->gpu != NULL) return ft_fail(FT_INVALID, "plan", "give --memory or --gpu, not both");
    if (w->json && w->csv) return ft_fail(FT_INVALID, "plan", "give --json or --csv, not both");
    if (w->table && w->sweep_count > 0) return ft_fail(FT_INVALID, "plan", "give --table or --sweep, not both");
    if (w->devices != NULL && (w->table || w->sweep_count > 0)) return ft_fail(FT_INVALID, "plan", "--devices is for one plan: without --table and --sweep");
    return FT_OK;
}

static ft_status read_labels(const plan_words *w, ft_plan_task *task) {
    if (w->labels == NULL) return FT_OK;
    char *end;
    long count = strtol(w->labels, &end, 10);
    if (end == w->labels || *end != '\0' || count < 2 || count > 1 << 20)
        return ft_fail(FT_INVALID, "plan",
                       "--labels takes a whole number of classes, at least 2, at most %d; got \"%s\"", 1 << 20,
                       w->labels);
    ft_config with = task->config;
    char missing[FT_PLAN_MISSING];
    FT_TRY(ft_plan_find_texts(&with, missing));
    if (with.data.train[0] != '\0' && !w->table)
        return ft_fail(FT_INVALID, "plan", "--labels: the classes are those of data.train, which is given");
    task->labels = (int)count;
    return FT_OK;
}

// A table and a sweep are of the configuration as it is.
static ft_status take_space(const plan_words *w, const ft_plan_addition *addition, ft_plan_task *task) {
    const bool wanted = addition != NULL && addition->wanted(&task->config);
    if (wanted && task->ranks.devices > 0) return ft_fail(FT_INVALID, "plan", "--devices is for one run, and [space] is of many");
    const bool there = wanted, other = w->table || w->sweep_count > 0;
    if (there && other) ft_info("[space] is left out of a %s; without it all of the space is planned", w->table ? "table" : "sweep");
    if (there && !other) task->space = addition;
    if (w->svg != NULL && !other && !there)
        return ft_fail(FT_INVALID, "plan", "--svg is the picture of a --table, a --sweep or a [space], and none of them is given");
    return FT_OK;
}

static ft_status prepare(const ft_section *const *sections, const plan_words *w, const ft_plan_addition *addition, ft_plan_task *task) {
    const ft_words *words = &w->words;
    if (w->gpu != NULL) FT_TRY(ft_card_find(w->gpu, &task->card));
    FT_TRY(ft_config_load_with(sections, &task->config, words->plain_count, words->plain, words->override_count, words->overrides));
    if (w->memory != NULL)
        FT_TRY(ft_option_set(&task->config, ft_option_at(ft_option_find("memory.limit")), w->memory, NULL, "--memory"));
    task->memory_given = w->memory != NULL;
    task->svg = w->svg;
    FT_TRY(ft_plan_take_ranks(w->devices, w->link, w->channels, task));
    task->words = words;
    FT_TRY(take_space(w, addition, task));
    task->format = w->json ? FT_PLAN_JSON : w->csv ? FT_PLAN_CSV : FT_PLAN_TEXT;
    FT_TRY(read_labels(w, task));
    task->asked = task->config;
    return w->table || w->sweep_count > 0 ? FT_OK : ft_plan_find_texts(&task->config, task->missing);
}

ft_status ft_plan_command(const ft_section *const *sections, int argc, char **argv, const ft_plan_addition *addition) {
    ft_arena arena = {0};
    plan_words w = {0};
    ft_plan_task task = {0};
    ft_status status = parse(argc, argv, &arena, &w);
    if (status == FT_OK) status = prepare(sections, &w, addition, &task);
    if (status == FT_OK)
        status = w.table             ? ft_plan_table(&task)
                 : w.sweep_count > 0 ? ft_plan_sweep(&task, w.sweep_count, w.sweeps)
                                     : ft_plan_report(&task);
    ft_config_free(&task.config);
    ft_arena_free(&arena);
    return status;
}
