#include "engine/train/repeat/repeat.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/config/share.h"
#include "engine/track/notify.h"
#include "engine/train/room/observer.h"
#include "engine/train/run_dir.h"
#include "engine/train/watch.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- which runs -----------------------------------------------------------------------------------------------------------

static bool every_fold(const ft_config *c) { return c->data.folds > 0 && c->data.fold == 0; }

static ft_status list_shares(ft_repeat *r) {
    const ft_int_list *shares = &r->config->data.shares;
    r->runs = ft_arena_alloc(&r->arena, (size_t)shares->count * sizeof *r->runs);
    if (r->runs == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < shares->count; i++) {
        ft_repeat_run *run = &r->runs[r->count++];
        run->share = shares->values[i];
        run->fold = r->config->data.fold;
        run->seed = r->config->train.seed;
        run->name = ft_arena_format(&r->arena, "share-%lld", (long long)run->share);
        if (run->name == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status list_runs(ft_repeat *r) {
    const ft_config *c = r->config;
    if (ft_config_has_shares(c)) return list_shares(r);
    int folds = every_fold(c) ? (int)c->data.folds : 1, seeds = c->train.seeds.count > 0 ? c->train.seeds.count : 1;
    r->runs = ft_arena_alloc(&r->arena, (size_t)folds * (size_t)seeds * sizeof *r->runs);
    if (r->runs == NULL) return FT_NO_MEMORY;
    for (int f = 0; f < folds; f++)
        for (int s = 0; s < seeds; s++) {
            ft_repeat_run *run = &r->runs[r->count++];
            run->fold = every_fold(c) ? f + 1 : c->data.fold;
            run->seed = c->train.seeds.count > 0 ? c->train.seeds.values[s] : c->train.seed;
            long long fold = (long long)run->fold, seed = (long long)run->seed;
            run->name = !every_fold(c)              ? ft_arena_format(&r->arena, "seed-%lld", seed)
                        : c->train.seeds.count == 0 ? ft_arena_format(&r->arena, "fold-%lld", fold)
                                                    : ft_arena_format(&r->arena, "fold-%lld-seed-%lld", fold, seed);
            if (run->name == NULL) return FT_NO_MEMORY;
        }
    return FT_OK;
}

// Runs of other seeds or folds in the directory would be taken for this configuration's by whoever reads it: predict takes
// the models of all.
static ft_status check_leftovers(const ft_repeat *r) {
    ft_arena arena = {0};
    const char **members;
    int count;
    ft_status status = ft_repeat_members(r->dir, &arena, &members, &count);
    for (int i = 0; i < count && status == FT_OK; i++) {
        bool ours = false;
        for (int k = 0; k < r->count; k++) ours |= strcmp(r->runs[k].name, strrchr(members[i], '/') + 1) == 0;
        if (ours) continue;
        status = ft_fail(FT_INVALID, "output.dir", "%s is no run of this configuration, and what reads the directory would count it",
                         members[i]);
        ft_hint("remove it, give train.seeds, data.folds and data.shares their old values, or name a new directory");
    }
    ft_arena_free(&arena);
    return status;
}

static ft_status open_directory(ft_repeat *r) {
    FT_TRY(ft_run_dir_take(r->config, &r->arena, &r->dir, &r->lock));
    char *checkpoints = ft_path_join(&r->arena, r->dir, "checkpoints"), *path = ft_path_join(&r->arena, r->dir, "config.ini"),
         *log = ft_path_join(&r->arena, r->dir, "train.log");
    if (checkpoints == NULL || path == NULL || log == NULL) return FT_NO_MEMORY;
    if (ft_path_exists(checkpoints))
        return ft_fail(FT_INVALID, "output.dir", "%s holds a single run, not one for every fold, seed or share", r->dir);
    FT_TRY(check_leftovers(r));
    for (int i = 0; i < r->count; i++) {
        r->runs[i].dir = ft_path_join(&r->arena, r->dir, r->runs[i].name);
        if (r->runs[i].dir == NULL) return FT_NO_MEMORY;
    }
    ft_atomic_file file;
    if (ft_path_exists(path)) FT_TRY(ft_read_file(path, 0, &r->before, &r->before_length));
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = ft_config_write(r->config, true, true, file.stream);
    if (status == FT_OK) status = ft_atomic_commit(&file);
    else ft_error_where_default("%s", path), ft_atomic_abort(&file);
    if (status == FT_OK) ft_log_copy_to(r->log, log);
    if (status == FT_OK) ft_run_tell(&(ft_run_news){.event = FT_RUN_OPENED, .dir = r->dir});
    return status;
}

// A configuration that is refused at once leaves nothing behind, as for a single run. What was there before stays: then
// the directory is not empty.
static void withdraw(const ft_repeat *r) {
    if (r->dir == NULL || r->count == 0 || r->runs[0].dir == NULL || ft_path_exists(r->runs[0].dir)) return;
    ft_arena arena = {0};
    char *config = ft_path_join(&arena, r->dir, "config.ini"), *log = ft_path_join(&arena, r->dir, "train.log");
    if (config != NULL && log != NULL && unlink(config) == 0) {
        unlink(log);
        rmdir(r->dir);
    }
    ft_arena_free(&arena);
}

// ---- one after the other --------------------------------------------------------------------------------------------------

// A run of a study leaves no checkpoint at its end, from which a finished one would be known. Instead its files are on the
// disk before the directory of the next one is made: where that is there, the run is taken as it is. One on a share of the texts
// leaves nothing in a study that is needed but its figures. Outside of one a checkpoint is asked, which knows another configuration.
static ft_status take_finished(ft_repeat *r, ft_repeat_run *run) {
    const ft_repeat_run *next = run + 1;
    const bool takes = ft_run_taken() || (run->share > 0 && ft_run_observer_of() != NULL);
    if (!takes || next == r->runs + r->count || !ft_path_exists(next->dir)) return FT_OK;
    char *path = ft_path_join(&r->arena, run->dir, "run.json");
    if (path == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(path)) return FT_OK;
    FT_TRY(ft_repeat_load(path, &run->json));
    const char *status = json_string_value(json_object_get(run->json, "status"));
    if (status != NULL && strcmp(status, ft_run_status_name(FT_OK)) == 0) return FT_OK;
    json_decref(run->json);
    run->json = NULL;
    return FT_OK;
}

// Strings are shared.
static ft_config config_of(const ft_repeat *r, const ft_repeat_run *run) {
    ft_config config = run->share > 0 ? ft_config_of_share(r->config, run->share) : *r->config;
    config.data.fold = run->fold;
    config.train.seed = run->seed;
    config.train.seeds = (ft_int_list){0};
    return config;
}

// At once: who ends a trial after a share lets it go on, maybe, with the next. Models of shares are of no use to a study.
static ft_status leave_share(const ft_repeat_run *run) {
    FT_TRY(ft_make_directories((run + 1)->dir));
    return ft_run_observer_of() != NULL ? ft_run_dir_make_lean(run->dir) : FT_OK;
}

static ft_status train_one(ft_repeat *r, ft_repeat_run *run, ft_memory_refusal *refusal) {
    bool begun;
    FT_TRY(take_finished(r, run));
    if (run->json != NULL) {
        ft_info("%s, %d of %d, had ended before", run->name, (int)(run - r->runs) + 1, r->count);
        return run->share > 1 ? leave_share(run) : FT_OK;
    }
    FT_TRY(ft_run_dir_begun(run->dir, &begun)); // the directory of one that has not may be there already
    ft_config config = config_of(r, run);
    config.output.dir = run->dir;
    config.output.exists = begun ? FT_EXISTS_RESUME : FT_EXISTS_NEW;
    config.notify.command = "";
    config.notify.url = "none"; // people are told of all together
    ft_info("%s", "");
    ft_info("%s, %d of %d", run->name, (int)(run - r->runs) + 1, r->count);
    ft_run_leaves((int)(r->runs + r->count - run) - 1);
    ft_status outcome = ft_train(&config, refusal);
    if (outcome == FT_OK && ft_run_taken() && run + 1 < r->runs + r->count) outcome = ft_sync_tree(run->dir);
    if (outcome == FT_OK && run->share > 1) outcome = leave_share(run);
    ft_error error;
    ft_error_save(&error);
    char *path = ft_path_join(&r->arena, run->dir, "run.json");
    ft_status read = path == NULL ? FT_NO_MEMORY : ft_path_exists(path) ? ft_repeat_load(path, &run->json) : FT_OK;
    if (outcome == FT_OK) return read;
    ft_error_restore(&error);
    return outcome;
}

enum { COLUMNS = 6 };

// What the table shows: the metric that chooses, loss and accuracy, of validation and test, as far as there is a mean.
static int choose_columns(const ft_repeat *r, char name[COLUMNS + 1][64]) {
    const char *const metrics[] = {ft_metric_name(r->config->eval.metric), "loss", "accuracy"};
    int count = 0;
    double mean, sd;
    for (int test = 0; test < 2; test++)
        for (int m = 0; m < 3; m++) {
            bool known = false;
            snprintf(name[count], sizeof name[count], "%s_%s", test ? "test" : "eval", metrics[m]);
            for (int k = 0; k < count; k++)
                known |= strcmp(name[k], name[count]) == 0;
            if (!known && ft_repeat_mean(r, name[count], &mean, &sd)) count++;
        }
    return count;
}

static ft_status print_table(ft_repeat *r) {
    char name[COLUMNS + 1][64];
    int count = choose_columns(r, name);
    const char *head = ft_arena_format(&r->arena, "  %-20s", ""), *means = ft_arena_format(&r->arena, "  %-20s", "mean");
    const char *deviations = ft_arena_format(&r->arena, "  %-20s", "standard deviation");
    for (int k = 0; k < count && head && means && deviations; k++) {
        double mean, sd;
        ft_repeat_mean(r, name[k], &mean, &sd);
        head = ft_arena_format(&r->arena, "%s %18s", head, name[k]);
        means = ft_arena_format(&r->arena, "%s %18.4f", means, mean);
        deviations = ft_arena_format(&r->arena, "%s %18.4f", deviations, sd);
    }
    if (!head || !means || !deviations) return FT_NO_MEMORY;
    ft_info("%s", "");
    ft_info("%s", head);
    for (int i = 0; i < r->done; i++) {
        const char *line = ft_arena_format(&r->arena, "  %-20s", r->runs[i].name);
        for (int k = 0; k < count && line != NULL; k++)
            line = ft_arena_format(&r->arena, "%s %18.4f", line,
                                   json_number_value(json_object_get(json_object_get(r->runs[i].json, "metrics"), name[k])));
        if (line == NULL) return FT_NO_MEMORY;
        ft_info("%s", line);
    }
    if (r->runs[0].share > 0) {
        ft_info("  model in %s/model; ftengine predict %s takes it", r->runs[r->count - 1].dir, r->dir);
        return FT_OK;
    }
    ft_info("%s", means);
    if (r->done > 1) ft_info("%s", deviations);
    ft_info("  models in %s/*/model; ftengine predict %s takes all of them", r->dir, r->dir);
    return FT_OK;
}

static ft_status train_each(ft_repeat *r, ft_memory_refusal *refusal) {
    for (int i = 0; i < r->count; i++) {
        if (ft_stop_signal() != 0) return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped before %s", r->runs[i].name);
        FT_TRY(train_one(r, &r->runs[i], refusal));
        r->done = i + 1;
        FT_TRY(ft_repeat_write_metrics(r));
        ft_run_alive(NULL, 0, 0, true);
    }
    FT_TRY(ft_repeat_write_predictions(r));
    return print_table(r);
}

// What comes through a pipe is gone after the first run.
static ft_status check_files(const ft_config *c) {
    const struct {
        const char *option, *path;
    } files[] = {{"data.train", c->data.train}, {"data.validation", c->data.validation}, {"data.test", c->data.test}};
    for (int i = 0; i < 3; i++)
        if (strcmp(files[i].path, "-") == 0)
            return ft_fail(FT_INVALID, files[i].option, "standard input cannot be read once for every fold, seed or share");
    return FT_OK;
}

// A refusal that can be foreseen comes before the first run and not after hours of others: every seed has another order of texts, every
// fold other texts.
static ft_status foresee(ft_repeat *r, ft_memory_refusal *refusal) {
    const int seeds = r->config->train.seeds.count > 0 ? r->config->train.seeds.count : 1;
    for (int first = 0; first < r->count; first += seeds) { // of one fold
        int64_t *list = ft_arena_alloc(&r->arena, (size_t)seeds * sizeof *list);
        if (list == NULL) return FT_NO_MEMORY;
        for (int i = 0; i < seeds; i++) list[i] = r->runs[first + i].seed;
        const ft_config config = config_of(r, &r->runs[first]);
        int at;
        const ft_status status = ft_train_foresee(&config, seeds, list, &at, refusal);
        if (status == FT_NO_MEMORY)
            ft_hint("this was found by planning all runs: it is %s, %d of %d, and none was started", r->runs[first + at].name,
                    first + at + 1, r->count);
        FT_TRY(status);
    }
    return FT_OK;
}

// A resume that is refused leaves the old runs as they are.
static ft_status put_back(ft_repeat *r) {
    const char *path = ft_path_join(&r->arena, r->dir, "config.ini");
    return path != NULL ? ft_atomic_write(path, r->before, r->before_length) : FT_NO_MEMORY;
}

static ft_status train_all(ft_repeat *r, ft_memory_refusal *refusal) {
    FT_TRY(check_files(r->config));
    FT_TRY(list_runs(r));
    FT_TRY(foresee(r, refusal));
    FT_TRY(open_directory(r));
    ft_status outcome = train_each(r, refusal);
    if (outcome != FT_OK && !ft_path_exists(r->runs[0].dir)) return outcome; // refused: there is nothing to tell of
    ft_error error;
    ft_error_save(&error);
    const bool refused = outcome == FT_INVALID && r->done == 0 && r->before != NULL;
    ft_status written = refused ? put_back(r) : ft_repeat_write_json(r, outcome);
    if (outcome == FT_OK) return written;
    ft_error_restore(&error);
    return outcome;
}

ft_status ft_train_all(const ft_config *config, ft_memory_refusal *refusal) {
    if (!every_fold(config) && config->train.seeds.count == 0 && !ft_config_has_shares(config)) return ft_train(config, refusal);
    ft_notifier *notifier = NULL;
    if (ft_run_observer_of() == NULL) FT_TRY(ft_notifier_open(config, &notifier));
    ft_repeat r = {.config = config, .lock = -1, .log = ft_log_copy_begin()};
    ft_stop_begin();
    ft_status status = train_all(&r, refusal);
    ft_error error;
    ft_error_save(&error);
    if (status != FT_OK) withdraw(&r);
    for (int i = 0; i < r.count; i++)
        json_decref(r.runs[i].json);
    free(r.before);
    if (r.lock >= 0) close(r.lock);
    if (status != FT_OK) ft_error_restore(&error);
    ft_notify_run(notifier, r.dir, status);
    ft_arena_free(&r.arena);
    if (status != FT_OK) ft_error_restore(&error);
    ft_log_copy_end(r.log, status == FT_OK);
    return status;
}

// ---- what is in a directory -----------------------------------------------------------------------------------------------

typedef struct member {
    long long fold, seed, share;
    const char *path;
} member;

static int by_number(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->share != y->share) return x->share > y->share ? -1 : 1;
    if (x->fold != y->fold) return x->fold < y->fold ? -1 : 1;
    return (x->seed > y->seed) - (x->seed < y->seed);
}

static bool read_name(const char *name, member *m) {
    char rest;
    *m = (member){0};
    if (sscanf(name, "share-%lld%c", &m->share, &rest) == 1) return m->share > 0;
    if (sscanf(name, "seed-%lld%c", &m->seed, &rest) == 1 || sscanf(name, "fold-%lld%c", &m->fold, &rest) == 1) return true;
    return sscanf(name, "fold-%lld-seed-%lld%c", &m->fold, &m->seed, &rest) == 2;
}

ft_status ft_repeat_members(const char *dir, ft_arena *arena, const char ***members, int *count) {
    member *list = NULL;
    *members = NULL;
    *count = 0;
    DIR *d = opendir(dir);
    if (d == NULL)
        return errno == ENOENT || errno == ENOTDIR ? FT_OK : ft_fail_errno(FT_FAILED, errno, dir, "cannot look for runs");
    ft_status status = FT_OK;
    for (struct dirent *e; status == FT_OK && (e = readdir(d)) != NULL;) {
        member m;
        if (!read_name(e->d_name, &m)) continue;
        member *grown = ft_realloc(list, (size_t)*count + 1, sizeof *grown, "the runs in a directory");
        m.path = ft_path_join(arena, dir, e->d_name);
        if (grown != NULL) list = grown;
        if (grown == NULL || m.path == NULL)
            status = FT_NO_MEMORY;
        else
            list[(*count)++] = m;
    }
    closedir(d);
    if (status == FT_OK && *count > 0) {
        qsort(list, (size_t)*count, sizeof *list, by_number);
        *members = ft_arena_alloc(arena, (size_t)*count * sizeof **members);
        for (int i = 0; *members != NULL && i < *count; i++)
            (*members)[i] = list[i].path;
        if (*members == NULL) status = FT_NO_MEMORY;
    }
    free(list);
    return status;
}

bool ft_repeat_is_share(const char *path, int64_t *one_in) {
    const char *slash = strrchr(path, '/');
    member m;
    const bool is = read_name(slash != NULL ? slash + 1 : path, &m) && m.share > 0;
    *one_in = is ? m.share : 0;
    return is;
}

static ft_status has_model(const char *run, ft_arena *arena, bool *has) {
    const char *model = ft_path_join(arena, run, "model"), *adapter = ft_path_join(arena, run, "adapter");
    if (model == NULL || adapter == NULL) return FT_NO_MEMORY;
    *has = ft_path_exists(model) || ft_path_exists(adapter);
    return FT_OK;
}

ft_status ft_repeat_models(const char *dir, ft_arena *arena, const char ***members, int *count) {
    int64_t one_in;
    bool has;
    FT_TRY(ft_repeat_members(dir, arena, members, count));
    if (*count == 0 || !ft_repeat_is_share((*members)[*count - 1], &one_in)) return FT_OK;
    *members += *count - 1;
    *count = 1;
    FT_TRY(has_model(**members, arena, &has));
    if (one_in == 1 && has) return FT_OK;
    ft_fail(FT_INVALID, dir, "the run on all texts (share-1) has %s", one_in == 1 ? "no model yet" : "not begun");
    ft_hint("the run goes on with output.exists=resume, a trial that was pruned by `ftengine study thaw`");
    if (has) ft_hint("%s is the one on a share of them", **members);
    return FT_INVALID;
}
