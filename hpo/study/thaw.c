#include "hpo/study/thaw.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "engine/memory/counters.h"
#include "engine/train/lengthen.h"
#include "engine/train/repeat/repeat.h"
#include "hpo/space/fidelity.h"
#include "hpo/study/disk.h"
#include "hpo/study/slots.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char thaws_key[] = "thaws", epochs_key[] = "thaw_epochs", steps_key[] = "thaw_steps", mark_file[] = "thawed";
static const char *const big[] = {"checkpoints", "model", "adapter"}; // what a run goes on from
enum { BIG = sizeof big / sizeof big[0] };

ft_status ft_thaw_of(ft_stored *study, int64_t number, int64_t *of) {
    const char *text;
    ft_arena arena = {0};
    *of = -1;
    ft_status status = ft_stored_attribute(study, number, FT_USER_ATTRIBUTE, thaws_key, &arena, &text);
    if (status == FT_OK && text != NULL) *of = strtoll(text, NULL, 10);
    ft_arena_free(&arena);
    if (status == FT_OK && *of >= number) *of = -1; // of another program
    return status;
}

static ft_status wish_of(ft_stored *study, int64_t number, ft_thaw_wish *wish) {
    const char *epochs, *steps;
    ft_arena arena = {0};
    *wish = (ft_thaw_wish){0};
    ft_status status = ft_stored_attribute(study, number, FT_USER_ATTRIBUTE, epochs_key, &arena, &epochs);
    if (status == FT_OK) status = ft_stored_attribute(study, number, FT_USER_ATTRIBUTE, steps_key, &arena, &steps);
    if (status == FT_OK && epochs != NULL) wish->epochs = strtod(epochs, NULL);
    if (status == FT_OK && steps != NULL) wish->steps = strtoll(steps, NULL, 10);
    ft_arena_free(&arena);
    return status;
}

static bool wishes(const ft_thaw_wish *wish) { return wish->epochs > 0 || wish->steps > 0; }

static char *directory_of(const char *study, int64_t number, ft_arena *arena) {
    return ft_arena_format(arena, "%s/trials/%05lld", study, (long long)number);
}

ft_status ft_thaw_bytes(const char *directory, uint64_t *bytes) {
    ft_arena arena = {0};
    const char **members;
    int count;
    *bytes = 0;
    ft_status status = ft_repeat_members(directory, &arena, &members, &count);
    for (int i = -1; status == FT_OK && i < count; i++)
        for (int k = 0; status == FT_OK && k < BIG; k++) {
            const char *path = ft_path_join(&arena, i < 0 ? directory : members[i], big[k]);
            if (path == NULL) status = FT_NO_MEMORY;
            else if (ft_path_is_directory(path)) *bytes += ft_disk_bytes(path);
        }
    ft_arena_free(&arena);
    return status;
}

// ---- a trial that waits ---------------------------------------------------------------------------------------------

static ft_status same_params(const ft_trials *trials, const ft_trial *trial, ft_arena *arena, ft_fixed_param **params) {
    *params = ft_arena_alloc(arena, (size_t)(trial->param_count + 1) * sizeof **params);
    for (int i = 0; *params != NULL && i < trial->param_count; i++) {
        const ft_distribution *d = trials->distributions[trial->params[i].distribution];
        const double value = trial->params[i].value;
        (*params)[i] =
            (ft_fixed_param){trials->names.name[trial->params[i].name],
                             d->kind == FT_CATEGORICAL ? d->choices[(int)value]
                             : d->kind == FT_INT       ? (ft_choice){.kind = FT_CHOICE_INT, .integer = (int64_t)value}
                                                       : (ft_choice){.kind = FT_CHOICE_FLOAT, .number = value}};
    }
    return *params != NULL ? FT_OK : FT_NO_MEMORY;
}

// A share that has ended leaves figures, and the next one needs nothing else; where it was to begin its directory is there.
static bool between_shares(const char *const *members, int count) {
    int64_t one_in;
    return count > 1 && ft_repeat_is_share(members[0], &one_in);
}

// A run goes on from a checkpoint alone, wherever a model is.
static ft_status has_checkpoint(const char *directory, bool *has) {
    ft_arena arena = {0};
    const char **members;
    int count;
    *has = false;
    ft_status status = ft_repeat_members(directory, &arena, &members, &count);
    if (status == FT_OK) *has = between_shares(members, count);
    for (int i = -1; status == FT_OK && i < count; i++) {
        const char *path = ft_path_join(&arena, i < 0 ? directory : members[i], big[0]);
        DIR *d = path != NULL ? opendir(path) : NULL;
        for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
            *has |= strncmp(e->d_name, "step", 4) == 0;
        if (d != NULL) closedir(d);
        if (path == NULL) status = FT_NO_MEMORY;
    }
    ft_arena_free(&arena);
    return status;
}

enum { LISTED = 128 }; // bytes of a hint's list

// The trials that something is kept of; the first ones, of many. `more`: complete ones too.
static ft_status list_frozen(const ft_trials *trials, const char *directory, bool more, ft_arena *arena, char list[LISTED]) {
    size_t length = 0;
    list[0] = '\0';
    for (int64_t i = 0; i < trials->count && length < LISTED - 28; i++) {
        const ft_trial_state state = trials->trial[i].state;
        if (state != FT_PRUNED && !(more && state == FT_COMPLETE)) continue;
        const char *path = directory_of(directory, i, arena), *mark = path != NULL ? ft_path_join(arena, path, mark_file) : NULL;
        bool has;
        if (mark == NULL) return FT_NO_MEMORY;
        FT_TRY(has_checkpoint(path, &has));
        if (has && !ft_path_exists(mark)) length += (size_t)snprintf(list + length, LISTED - length, "%s%lld", length > 0 ? ", " : "", (long long)i);
    }
    return FT_OK;
}

static ft_status check_kept(const ft_stored *study, const char *directory, int64_t of, bool more, ft_arena *arena) {
    char others[LISTED];
    bool has;
    const char *path = directory_of(directory, of, arena);
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(has_checkpoint(path, &has));
    if (has) return FT_OK;
    FT_TRY(list_frozen(&study->trials, directory, more, arena, others));
    ft_fail(FT_INVALID, study->name, "nothing is left of trial %lld to go on from", (long long)of);
    if (others[0] != '\0') ft_hint("trials that can go on: %s", others);
    else ft_hint("study.keep_pruned = 10GiB, or so, keeps the checkpoints of trials that end from then on");
    return FT_INVALID;
}

// It would have more steps, and those that it has made are theirs too.
static ft_status check_wish(const ft_stored *study, const char *directory, int64_t of, const ft_thaw_wish *wish, ft_arena *arena) {
    const char *run = directory_of(directory, of, arena), *file = run != NULL ? ft_path_join(arena, run, "config.ini") : NULL;
    const char *const option = wish->steps > 0 ? "train.max_steps" : "train.epochs", **members;
    ft_config config;
    int count;
    if (file == NULL) return FT_NO_MEMORY;
    const int name = ft_trials_find_name(&study->trials, option);
    if (name >= 0 && ft_trial_find_param(&study->trials.trial[of], name) != NULL) {
        ft_fail(FT_INVALID, study->name, "%s is a parameter of this study: trial %lld with another value is another trial", option, (long long)of);
        ft_hint("ftengine study enqueue %s %s=N", study->name, option);
        return FT_INVALID;
    }
    FT_TRY(ft_repeat_members(run, arena, &members, &count));
    if (between_shares(members, count)) {
        ft_fail(FT_INVALID, study->name, "trial %lld was trained on shares of the texts, each to its end: another length is another trial",
                (long long)of);
        ft_hint("ftengine train %s/config.ini %s=N trains its settings once more, on all texts", members[count - 1], option);
        return FT_INVALID;
    }
    FT_TRY(ft_study_config_load(&config, 1, &file, 0, NULL));
    const ft_status status = ft_lengthen_check(&config, count > 0 ? members[0] : run, wish->epochs, wish->steps);
    ft_config_free(&config);
    return status;
}

static ft_status refuse_complete(const ft_stored *study, const char *directory, int64_t of, ft_arena *arena) {
    const char **members, *path = directory_of(directory, of, arena);
    int count;
    FT_TRY(path != NULL ? ft_repeat_members(path, arena, &members, &count) : FT_NO_MEMORY);
    ft_fail(FT_INVALID, study->name, "trial %lld came to its end: it has no more steps to make", (long long)of);
    if (between_shares(members, count)) ft_hint("ftengine train %s/config.ini trains its settings once more, on all texts", members[count - 1]);
    else ft_hint("to more, where the learning rate does not end with them (train.lr_scheduler = constant): ftengine study thaw %s %lld --epochs N",
                 study->name, (long long)of);
    return FT_INVALID;
}

static ft_status check(ft_stored *study, const char *directory, int64_t of, const ft_thaw_wish *wish, ft_arena *arena) {
    const ft_trials *trials = &study->trials;
    const char *name = study->name;
    if (of < 0 || of >= trials->count) {
        ft_fail(FT_INVALID, name, "there is no trial %lld", (long long)of);
        if (trials->count > 0) ft_hint("its trials are 0 to %lld", (long long)(trials->count - 1));
        return FT_INVALID;
    }
    switch (trials->trial[of].state) {
    case FT_PRUNED: break;
    case FT_RUNNING:
    case FT_WAITING:
        ft_fail(FT_INVALID, name, "trial %lld is not at its end: it goes on by itself", (long long)of);
        ft_hint("ftengine tune --study %s", name);
        return FT_INVALID;
    case FT_COMPLETE:
        if (wishes(wish)) break;
        return refuse_complete(study, directory, of, arena);
    case FT_FAIL: return ft_fail(FT_INVALID, name, "trial %lld failed: it would fail again", (long long)of);
    }
    FT_TRY(check_kept(study, directory, of, wishes(wish), arena));
    if (wishes(wish)) FT_TRY(check_wish(study, directory, of, wish, arena));
    for (int64_t i = of + 1; i < trials->count; i++) {
        int64_t other;
        FT_TRY(ft_thaw_of(study, i, &other));
        if (other == of)
            return ft_fail(FT_INVALID, name, "trial %lld goes on already, as trial %lld", (long long)of, (long long)i);
    }
    return FT_OK;
}

static ft_status enqueue(ft_stored *study, const char *directory, int64_t of, const ft_thaw_wish *wish, ft_arena *arena, int64_t *number) {
    ft_fixed_param *params;
    FT_TRY(ft_stored_refresh(study));
    FT_TRY(check(study, directory, of, wish, arena));
    FT_TRY(same_params(&study->trials, &study->trials.trial[of], arena, &params));
    FT_TRY(ft_stored_enqueue(study, params, study->trials.trial[of].param_count, number));
    if (wish->epochs > 0)
        FT_TRY(ft_stored_set_scalar(study, *number, FT_USER_ATTRIBUTE, epochs_key,
                                    &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = wish->epochs}));
    if (wish->steps > 0)
        FT_TRY(ft_stored_set_scalar(study, *number, FT_USER_ATTRIBUTE, steps_key,
                                    &(ft_choice){.kind = FT_CHOICE_INT, .integer = wish->steps}));
    return ft_stored_set_scalar(study, *number, FT_USER_ATTRIBUTE, thaws_key,
                                &(ft_choice){.kind = FT_CHOICE_INT, .integer = of});
}

ft_status ft_thaw_enqueue(ft_stored *study, const char *directory, int64_t of, const ft_thaw_wish *wish, int64_t *number) {
    ft_arena arena = {0};
    ft_error error;
    FT_TRY(ft_storage_begin(study->storage));
    ft_status status = enqueue(study, directory, of, wish, &arena, number);
    if (status == FT_OK) status = ft_storage_commit(study->storage);
    if (status != FT_OK) {
        ft_error_save(&error);
        ft_storage_rollback(study->storage);
        ft_error_restore(&error);
    }
    ft_arena_free(&arena);
    return status;
}

// ---- its directory --------------------------------------------------------------------------------------------------

static bool is_big(const char *path) {
    for (int k = 0; k < BIG; k++) {
        const char *at = strstr(path, big[k]);
        const size_t length = strlen(big[k]);
        if (at != NULL && at > path && at[-1] == '/' && at[length] == '/') return true;
    }
    return false;
}

// Weights have one more name: who writes them anew makes another file. What grows is copied.
static ft_status copy_entry(const FTSENT *entry, const char *from, const char *to, ft_arena *arena) {
    const char *below = entry->fts_path + strlen(from);
    char *path = ft_arena_format(arena, "%s%s", to, below);
    if (path == NULL) return FT_NO_MEMORY;
    switch (entry->fts_info) {
    case FTS_D: return ft_make_directories(path);
    case FTS_F:
        if (below[0] == '/' && strcmp(below + 1, mark_file) == 0) return FT_OK;
        if (is_big(below) && link(entry->fts_path, path) == 0) return FT_OK;
        return ft_copy_file(entry->fts_path, path);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS: return ft_fail_errno(FT_FAILED, entry->fts_errno, entry->fts_path, "cannot read");
    default: return FT_OK; // links and the like are no run's
    }
}

static ft_status copy_tree(const char *from, const char *to) {
    char *const roots[] = {(char *)from, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    ft_status status = FT_OK;
    if (tree == NULL) return ft_fail_errno(FT_FAILED, errno, from, "cannot read");
    for (FTSENT *entry; status == FT_OK && (entry = fts_read(tree)) != NULL;) {
        ft_arena arena = {0};
        if (entry->fts_info != FTS_DP) status = copy_entry(entry, from, to, &arena);
        ft_arena_free(&arena);
    }
    fts_close(tree);
    return status;
}

// What configures a trial also says how far it goes.
static ft_status configure(const ft_thaw_wish *wish, ft_config *config) {
    char text[64];
    const bool steps = wish->steps > 0;
    if (steps) snprintf(text, sizeof text, "%lld", (long long)wish->steps);
    else ft_real_text(wish->epochs, text);
    FT_TRY(ft_option_set(config, ft_option_at(ft_option_find("train.max_steps")), steps ? text : "0", NULL, "train.max_steps"));
    return steps ? FT_OK : ft_option_set(config, ft_option_at(ft_option_find("train.epochs")), text, NULL, "train.epochs");
}

ft_status ft_tuning_thaw_configure(ft_tuning *t, int64_t number, ft_config *config) {
    int64_t of;
    ft_thaw_wish wish = {0};
    FT_TRY(ft_tuning_thaw_of(t, number, &of));
    if (of >= 0) FT_TRY(wish_of(t->study, number, &wish));
    return wishes(&wish) ? configure(&wish, config) : FT_OK;
}

static ft_status rewrite(const char *directory, const ft_thaw_wish *wish, ft_arena *arena) {
    const char *path = ft_path_join(arena, directory, "config.ini");
    ft_config config;
    ft_atomic_file file;
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_study_config_load(&config, 1, &path, 0, NULL));
    ft_status status = configure(wish, &config);
    if (status == FT_OK) status = ft_atomic_open(&file, path);
    if (status == FT_OK && (status = ft_config_write(&config, true, true, file.stream)) != FT_OK) ft_error_where_default("%s", path), ft_atomic_abort(&file);
    else if (status == FT_OK) status = ft_atomic_commit(&file);
    ft_config_free(&config);
    return status;
}

// A copy becomes one that goes on to another end: nothing in it tells of the old one, to whom looks before it begins.
static ft_status lengthen(const char *directory, const ft_thaw_wish *wish, ft_arena *arena) {
    const char **members, *means = ft_path_join(arena, directory, "metrics.jsonl");
    int count;
    if (means == NULL) return FT_NO_MEMORY;
    FT_TRY(rewrite(directory, wish, arena));
    FT_TRY(ft_repeat_members(directory, arena, &members, &count));
    for (int i = -1; i < count; i++) FT_TRY(ft_lengthen_cut(i < 0 ? directory : members[i]));
    if (count > 0 && unlink(means) != 0 && errno != ENOENT) return ft_fail_errno(FT_FAILED, errno, means, "cannot remove");
    return FT_OK;
}

static ft_status take_over(ft_tuning *t, int64_t number, int64_t of, ft_arena *arena) {
    const char *from = directory_of(t->directory, of, arena), *to = ft_tuning_trial_directory(t, number, arena);
    const char *made = to != NULL ? ft_arena_format(arena, "%s.thaw", to) : NULL;
    const char *config = to != NULL ? ft_path_join(arena, to, "config.ini") : NULL;
    const char *mark = from != NULL ? ft_path_join(arena, from, mark_file) : NULL;
    ft_thaw_wish wish;
    bool has;
    if (made == NULL || config == NULL || mark == NULL) return FT_NO_MEMORY;
    FT_TRY(has_checkpoint(from, &has));
    if (ft_path_exists(config)) return has && !ft_path_exists(mark) ? ft_atomic_write(mark, "", 0) : FT_OK; // it goes on itself
    FT_TRY(wish_of(t->study, number, &wish));
    if (!has) {
        ft_warn("trial %lld: nothing is left of trial %lld to go on from; it begins anew", (long long)number,
                (long long)of);
        return FT_OK;
    }
    FT_TRY(ft_remove_tree(made));
    FT_TRY(copy_tree(from, made));
    if (wishes(&wish)) FT_TRY(lengthen(made, &wish, arena));
    FT_TRY(ft_sync_tree(made));
    FT_TRY(ft_remove_tree(to));
    if (rename(made, to) != 0) return ft_fail_errno(FT_FAILED, errno, to, "cannot make the directory");
    ft_info("trial %lld goes on where trial %lld %s", (long long)number, (long long)of,
            t->study->trials.trial[of].state == FT_PRUNED ? "was pruned" : "ended");
    return ft_atomic_write(mark, "", 0);
}

ft_status ft_tuning_thaw_of(ft_tuning *t, int64_t number, int64_t *of) {
    *of = -1;
    return number == t->fresh ? FT_OK : ft_thaw_of(t->study, number, of);
}

ft_status ft_tuning_take_over(ft_tuning *t, int64_t number) {
    int64_t of;
    ft_arena arena = {0};
    FT_TRY(ft_tuning_thaw_of(t, number, &of));
    ft_status status = of >= 0 ? take_over(t, number, of, &arena) : FT_OK;
    ft_arena_free(&arena);
    return status;
}

// ---- the budget -----------------------------------------------------------------------------------------------------

typedef struct frozen {
    int64_t number;
    uint64_t bytes;
    double loss;
} frozen;

static int worst_first(const void *a, const void *b) {
    const frozen *x = a, *y = b;
    if (x->loss != y->loss) return x->loss > y->loss ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static double loss_of(const ft_trials *trials, const ft_trial *trial) {
    const double value = trial->value_count > 0 ? trial->values[0] : NAN;
    return isnan(value) ? INFINITY : trials->maximize[0] ? -value : value;
}

// Somebody waits for them: they are no part of the budget.
static ft_status keep_wanted(ft_tuning *t, bool *kept) {
    const ft_trials *trials = &t->study->trials;
    for (int64_t i = 0; i < trials->count; i++) {
        int64_t of = -1;
        if (trials->trial[i].state == FT_WAITING || trials->trial[i].state == FT_RUNNING)
            FT_TRY(ft_thaw_of(t->study, i, &of));
        if (of >= 0) kept[of] = true;
    }
    return FT_OK;
}

static ft_status list(ft_tuning *t, const bool *kept, ft_arena *arena, frozen *out, int *count, uint64_t *total) {
    const ft_trials *trials = &t->study->trials;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        const bool more = trial->state == FT_COMPLETE && ft_fidelity_parts(t->config) == 0; // of shares each came to its end
        if ((trial->state != FT_PRUNED && !more) || kept[i] || t->lean[i] || ft_slots_of(t, i) != NULL) continue;
        const char *directory = ft_tuning_trial_directory(t, i, arena);
        const char *mark = directory != NULL ? ft_path_join(arena, directory, mark_file) : NULL;
        if (mark == NULL) return FT_NO_MEMORY;
        if (ft_path_exists(mark)) continue; // another trial has it
        uint64_t bytes;
        FT_TRY(ft_thaw_bytes(directory, &bytes));
        if (bytes == 0) continue;
        out[(*count)++] = (frozen){i, bytes, loss_of(trials, trial)};
        *total += bytes;
    }
    return FT_OK;
}

static ft_status keep_within(ft_tuning *t, bool *kept, ft_arena *arena) {
    const uint64_t budget = (uint64_t)t->options->keep_pruned;
    frozen *all = ft_arena_alloc(arena, ((size_t)t->study->trials.count + 1) * sizeof *all);
    int count = 0;
    uint64_t total = 0;
    if (all == NULL) return FT_NO_MEMORY;
    FT_TRY(keep_wanted(t, kept));
    FT_TRY(list(t, kept, arena, all, &count, &total));
    qsort(all, (size_t)count, sizeof *all, worst_first);
    for (int i = 0; i < count; i++) {
        char size[32];
        kept[all[i].number] = total <= budget;
        if (kept[all[i].number]) continue;
        total -= all[i].bytes;
        ft_info("trial %lld cannot go on any more: its checkpoint, %s, is dropped for study.keep_pruned",
                (long long)all[i].number, ft_bytes_text(all[i].bytes, size));
    }
    return FT_OK;
}

ft_status ft_tuning_keep_pruned(ft_tuning *t, bool *kept) {
    ft_arena arena = {0};
    if (t->options->keep_pruned == 0) return FT_OK;
    ft_status status = keep_within(t, kept, &arena);
    ft_arena_free(&arena);
    return status;
}
