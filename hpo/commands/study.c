// study.c - `ftengine study SUBCOMMAND`: which one, on which study.
#include "hpo/commands/commands.h"
#include "hpo/commands/study.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum needs { NO_STUDY, READS, WRITES } needs;

static const struct {
    const char *name;
    ft_status (*run)(study_call *call);
    needs needs;
    const char *flags; // beside --study and --storage, separated by spaces
    const char *usage;
} subcommands[] = {
    {"create", ft_study_create, NO_STUDY, "--json --direction",
     "create [CONFIG.ini] [--study NAME] [--storage URL] [--direction minimize|maximize[,...]] [section.key=value "
     "...]"},
    {"list", ft_study_list, NO_STUDY, "--json", "list [--storage URL] [--json]"},
    {"show", ft_study_show, READS, "--json --trial", "show [NAME] [--trial N] [--json]"},
    {"best", ft_study_best, READS, "--json", "best [NAME] [--json]"},
    {"trials", ft_study_trials, READS, "--json --state --top", "trials [NAME] [--state STATE] [--top N] [--json]"},
    {"enqueue", ft_study_enqueue, WRITES, "--json --force --skip-if-exists",
     "enqueue [NAME] PARAMETER=VALUE... [--skip-if-exists] [--force]"},
    {"ask", ft_study_ask, WRITES, "--json --space", "ask [NAME] [--space FILE.json] [--json] [study.KEY=VALUE ...]"},
    {"tell", ft_study_tell, WRITES, "--json --state --step --constraints",
     "tell [NAME] NUMBER VALUE... [--state complete|pruned|fail] [--constraints C[,...]] [--step STEP] [--json] [study.KEY=VALUE ...]"},
    {"thaw", ft_study_thaw, WRITES, "--json --epochs --steps", "thaw [NAME] NUMBER... [--epochs E|--steps S] [--json]"},
    {"export", ft_study_export, READS, "--json --format --output", "export [NAME] [--output FILE] [--format csv|jsonl|db]"},
    {"import", ft_study_import, NO_STUDY, "--json --from", "import FILE [--study NAME] [--storage URL] [--from STUDY]"},
    {"report", ft_study_report, READS, "--json --output --svg", "report [NAME] [--output FILE|-] [--svg DIRECTORY]"},
    {"delete", ft_study_delete, WRITES, "--json --yes", "delete NAME --yes"},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

static ft_status choose(int argc, char **argv, int *at) {
    const char *names[SUBCOMMANDS];
    for (int i = 0; i < SUBCOMMANDS; i++)
        names[i] = subcommands[i].name;
    for (*at = 0; argc > 0 && *at < SUBCOMMANDS; ++*at)
        if (strcmp(argv[0], names[*at]) == 0) return FT_OK;
    if (argc == 0 || argv[0][0] == '-') {
        ft_fail(FT_INVALID, "study", "what shall be done?");
        ft_hint("ftengine study create, list, show, best, trials, enqueue, ask, tell, thaw, export, import, report or delete");
        return FT_INVALID;
    }
    return ft_no_such("study", "subcommand", argv[0], SUBCOMMANDS, names);
}

// ---- words ----------------------------------------------------------------------------------------------------------

static ft_status parse(int argc, char **argv, int at, study_call *call) {
    const ft_flag all[] = {{"--study", &call->study, NULL},
                           {"--storage", &call->storage, NULL},
                           {"--json", NULL, &call->json},
                           {"--state", &call->state, NULL},
                           {"--top", &call->top, NULL},
                           {"--force", NULL, &call->force},
                           {"--skip-if-exists", NULL, &call->skip_if_exists},
                           {"--format", &call->format, NULL},
                           {"--output", &call->output, NULL},
                           {"--from", &call->from, NULL},
                           {"--svg", &call->svg, NULL},
                           {"--space", &call->space, NULL},
                           {"--direction", &call->direction, NULL},
                           {"--step", &call->step, NULL},
                           {"--constraints", &call->constraints, NULL},
                           {"--trial", &call->trial, NULL},
                           {"--steps", &call->steps, NULL},
                           {"--epochs", &call->epochs, NULL},
                           {"--yes", NULL, &call->yes}};
    enum { FLAGS = sizeof all / sizeof all[0] };
    ft_flag flags[FLAGS];
    int count = 0;
    for (int i = 0; i < FLAGS; i++) {
        const char *found = strstr(subcommands[at].flags, all[i].name);
        size_t length = strlen(all[i].name);
        if (i < 2 || (found != NULL && (found[length] == ' ' || found[length] == '\0'))) flags[count++] = all[i];
    }
    return ft_parse_words("study", argc, argv, count, flags, &call->arena, &call->words);
}

// "sqlite:///FILE" and "NAME" may hold a '=' behind a '/'.
static bool is_setting(const char *word) {
    const char *equals = strchr(word, '='), *slash = strchr(word, '/');
    return equals != NULL && (slash == NULL || slash > equals);
}

static bool is_number(const char *word) {
    char *end;
    (void)strtod(word, &end);
    return *word != '\0' && *end == '\0' && !isalpha((unsigned char)*word); // inf may be a study's name
}

// Of `tell` and `thaw`: a study may be called 7 only where --study says so.
static void take_name(study_call *call) {
    ft_words *w = &call->words;
    if (call->study != NULL || w->plain_count == 0 || is_number(w->plain[0])) return;
    call->study = w->plain[0];
    memmove(w->plain, w->plain + 1, (size_t)--w->plain_count * sizeof *w->plain);
}

// Sorts the words into the study's name and settings; what is left stays in words.plain.
static ft_status sort_words(study_call *call, bool takes_name, bool takes_settings) {
    ft_words *w = &call->words;
    call->settings = ft_arena_alloc(&call->arena, (size_t)(w->plain_count + w->override_count + 1) * sizeof(char *));
    if (call->settings == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < w->override_count; i++)
        call->settings[call->setting_count++] = w->overrides[i];
    int kept = 0;
    for (int i = 0; i < w->plain_count; i++)
        if (is_setting(w->plain[i]) && takes_settings)
            call->settings[call->setting_count++] = w->plain[i];
        else
            w->plain[kept++] = w->plain[i];
    w->plain_count = kept;
    if (call->setting_count > 0 && !takes_settings)
        return ft_fail(FT_INVALID, "study", "%s takes no settings, got %s", call->subcommand, call->settings[0]);
    if (!takes_name || kept == 0) return FT_OK;
    if (kept == 1 && call->study == NULL) {
        call->study = w->plain[0];
        return FT_OK;
    }
    return ft_fail(FT_INVALID, "study", "one study at a time, got '%s' and '%s'",
                   call->study != NULL ? call->study : w->plain[0], kept > 1 ? w->plain[1] : w->plain[0]);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static ft_status run(int argc, char **argv, int at, study_call *call) {
    call->subcommand = subcommands[at].name;
    FT_TRY(parse(argc, argv, at, call));
    ft_status (*const does)(study_call *) = subcommands[at].run;
    const bool tells = does == ft_study_tell, numbered = tells || does == ft_study_thaw, sets = does == ft_study_enqueue || does == ft_study_ask || tells;
    // Those of `create` are the words of `ftengine tune`.
    if (does != ft_study_create) FT_TRY(sort_words(call, does != ft_study_import && !numbered, sets));
    if (numbered) take_name(call);
    if (subcommands[at].needs != NO_STUDY)
        FT_TRY(ft_study_open(call->study, call->storage,
                             subcommands[at].needs == WRITES ? FT_STORAGE_WRITE : FT_STORAGE_READ, &call->arena,
                             &call->place, &call->file, &call->opened));
    return subcommands[at].run(call);
}

ft_status ft_command_study(const ft_section *const *sections, int argc, char **argv) {
    int at;
    FT_TRY(choose(argc, argv, &at));
    study_call call = {.subcommand = NULL};
    ft_status status = run(argc - 1, argv + 1, at, &call);
    // A mistake in the words, not in what they name.
    if (status == FT_INVALID && ft_error_hint_count() == 0 && strcmp(ft_error_where(), "study") == 0)
        ft_hint("ftengine study %s", subcommands[at].usage);
    ft_error error;
    ft_error_save(&error); // closing must not hide it
    ft_stored_close(call.opened);
    ft_status closed = ft_storage_close(call.file);
    if (status != FT_OK)
        ft_error_restore(&error);
    else
        status = closed;
    ft_arena_free(&call.arena);
    return status;
}
