// engine.c - an engine: a context of its own (base/context.h), whose messages, progress and errors are the caller's.
#include "library/engine.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/config/config.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)FTENGINE_FAILED == FT_FAILED && (int)FTENGINE_INVALID == FT_INVALID && (int)FTENGINE_NO_MEMORY == FT_NO_MEMORY &&
                   (int)FTENGINE_NO_DEVICE == FT_NO_DEVICE && (int)FTENGINE_DIVERGED == FT_DIVERGED &&
                   (int)FTENGINE_INTERRUPTED == FT_INTERRUPTED,
               "a code is a status");

const char *ftengine_version(void) { return FT_VERSION; }
int ftengine_abi(void) { return FTENGINE_ABI; }
void ftengine_string_free(char *text) { free(text); }

// ---- what happens inside, told outside ------------------------------------------------------------------------------------

static void say(void *owner, const char *text) {
    ftengine *engine = owner;
    if (engine->line != NULL) engine->line(engine->line_user, text);
}

// Work begins that can stop: what was asked before it began holds for it.
static void begins(ft_context *context) {
    ftengine *engine = (ftengine *)context;
    if (atomic_load(&engine->stop)) (void)ft_stop_ask(context, SIGINT);
}

static int list_metrics(const double *values, const char **names, double *out) {
    int count = 0;
    for (int k = 0; values != NULL && k < FT_METRIC_COUNT; k++) {
        if (isnan(values[k])) continue;
        names[count] = ft_metric_name((ft_metric)k);
        out[count++] = values[k];
    }
    return count;
}

static void tell(void *owner, const ft_run_news *news) {
    static const int events[] = {[FT_RUN_OPENED] = FTENGINE_OPENED,
                                 [FT_RUN_STEPPED] = FTENGINE_STEPPED,
                                 [FT_RUN_LOGGED] = FTENGINE_LOGGED,
                                 [FT_RUN_EVALUATED] = FTENGINE_EVALUATED};
    ftengine *engine = owner;
    if (engine->told == NULL) return;
    const char *names[FT_METRIC_COUNT];
    double values[FT_METRIC_COUNT];
    const ftengine_progress progress = {.size = sizeof progress,
                                        .event = events[news->event],
                                        .run = news->dir,
                                        .step = news->step,
                                        .steps = news->steps,
                                        .epoch = news->epoch,
                                        .loss = news->loss,
                                        .learning_rate = news->learning_rate,
                                        .gradient_norm = news->gradient_norm,
                                        .tokens_per_second = news->tokens_per_second,
                                        .seconds_left = news->seconds_left,
                                        .bytes = news->bytes,
                                        .best = news->best,
                                        .metric_count = list_metrics(news->metrics, names, values),
                                        .metric_names = names,
                                        .metric_values = values};
    if (engine->told(engine->told_user, &progress) != 0) ftengine_stop(engine);
}

// ---- an engine --------------------------------------------------------------------------------------------------------------

static void watch_json(void) { json_set_alloc_funcs(ft_heap_malloc, free); }

int ftengine_new(ftengine **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT; // Jansson is a copy of the library's own
    ftengine *engine = *out = calloc(1, sizeof *engine);
    if (engine == NULL) return FTENGINE_NO_MEMORY;
    (void)pthread_once(&once, watch_json);
    ft_context_init(&engine->context);
    engine->context.sink = (ft_log_sink){.line = say, .owner = engine};
    engine->context.begins = begins;
    engine->watch = (ft_run_watch){.owner = engine, .told = tell};
    ft_context *before = ft_context_enter(&engine->context);
    ft_run_set_watch(&engine->watch);
    ft_context_enter(before);
    return FTENGINE_OK;
}

void ftengine_free(ftengine *engine) {
    if (engine == NULL) return;
    ft_context_free(&engine->context);
    free(engine);
}

bool ft_engine_enter(ftengine *engine) {
    if (atomic_exchange(&engine->busy, true)) return false;
    engine->error = (ft_error){.code = FT_OK};
    engine->text[0] = '\0';
    engine->outer = ft_context_enter(&engine->context);
    ft_error_clear();
    return true;
}

static void write_text(ftengine *engine) {
    const ft_error *e = &engine->error;
    const bool has_where = e->where[0] != '\0';
    int used = snprintf(engine->text, sizeof engine->text, "%s%s%s%s", e->message, has_where ? " (" : "", e->where, has_where ? ")" : "");
    for (int i = 0; i < e->hints && used > 0 && (size_t)used < sizeof engine->text; i++)
        used += snprintf(engine->text + used, sizeof engine->text - (size_t)used, "\nhint: %s", e->hint[i]);
}

int ft_engine_leave(ftengine *engine, ft_status status) {
    if (status != FT_OK) {
        ft_error_save(&engine->error);
        write_text(engine);
    }
    ft_error_clear();
    atomic_store(&engine->context.stop, 0);
    atomic_store(&engine->stop, false);
    ft_context_enter(engine->outer);
    atomic_store(&engine->busy, false);
    return (int)status;
}

ft_status ft_library_check_words(int count, const char *const *words) {
    for (int i = 0; i < count; i++)
        if (words == NULL || words[i] == NULL) return ft_fail(FT_INVALID, NULL, "word %d is NULL", i);
    return FT_OK;
}

ft_status ft_library_check_list(const char *what, int64_t count, const void *list) {
    if (count < 0) return ft_fail(FT_INVALID, what, "there cannot be %lld of them", (long long)count);
    return count == 0 || list != NULL ? FT_OK : ft_fail(FT_INVALID, what, "there are to be %lld of them, and the list is NULL", (long long)count);
}

void ftengine_stop(ftengine *engine) {
    atomic_store(&engine->stop, true);
    (void)ft_stop_ask(&engine->context, SIGINT);
}

const char *ftengine_error(const ftengine *engine) { return engine->text; }
const char *ftengine_error_message(const ftengine *engine) { return engine->error.message; }
const char *ftengine_error_where(const ftengine *engine) { return engine->error.where; }
const char *ftengine_error_hint(const ftengine *engine, int index) {
    return index >= 0 && index < engine->error.hints ? engine->error.hint[index] : NULL;
}

int ftengine_on_message(ftengine *engine, int level, void (*line)(void *user, const char *text), void *user) {
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    ft_status status = FT_OK;
    if (level < FT_LOG_SILENT || level > FT_LOG_VERBOSE) status = ft_fail(FT_INVALID, "level", "from -1 to 2, got %d", level);
    if (status == FT_OK) {
        engine->line = line;
        engine->line_user = user;
        ft_log_set_level((ft_log_level)level);
    }
    return ft_engine_leave(engine, status);
}

int ftengine_on_progress(ftengine *engine, int (*told)(void *user, const ftengine_progress *progress), void *user) {
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    engine->told = told;
    engine->told_user = user;
    return ft_engine_leave(engine, FT_OK);
}

int ftengine_set_program(ftengine *engine, const char *path) {
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    ft_status status = FT_OK;
    if (path == NULL) status = ft_fail(FT_INVALID, "ftengine_set_program", "no program is named");
    else if (strlen(path) >= sizeof engine->program || access(path, X_OK) != 0) status = ft_fail(FT_INVALID, path, "there is no such program");
    if (status == FT_OK) {
        snprintf(engine->program, sizeof engine->program, "%s", path);
        engine->context.program = engine->program;
    }
    return ft_engine_leave(engine, status);
}
