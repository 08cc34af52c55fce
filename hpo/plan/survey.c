#include "hpo/plan/survey.h"

#include "base/clock.h"
#include "base/log.h"
#include "hpo/space/options_study.h"
#include "kernels/devices/devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, BLOCK = 8, MOST_MOVES = 64 };
static const uint64_t SEED = 26; // of the sample: the same space has the same answer

typedef struct survey_call {
    const ft_survey_request *request;
    ft_survey *survey;
    bool fits;        // study.memory_policy = fit: a trial is fitted
    int64_t *order;   // [points.count] in which they are planned
    pthread_mutex_t lock;
    int64_t next;     // in the order
    int64_t first_invalid;
    ft_status status; // of the first worker that failed
    ft_error error;
} survey_call;

// ---- one point ----------------------------------------------------------------------------------------------------------

static ft_status judge_config(const survey_call *call, ft_config *config, char *missing, ft_plan_jobs *jobs, ft_survey_point *out) {
    ft_outlook outlook;
    FT_TRY(ft_plan_find_texts(config, missing));
    ft_config as_tried = *config;
    if (!call->fits) ft_study_refuse_fitting(&as_tried);
    FT_TRY(ft_outlook_of(&as_tried, call->request->plan, jobs, &outlook));
    *out = (ft_survey_point){.kind = outlook.kind, .bytes = outlook.bytes, .budget = outlook.budget};
    if (call->fits || outlook.kind != FT_OUTLOOK_NEVER) return FT_OK;
    FT_TRY(ft_outlook_of(config, call->request->plan, jobs, &outlook)); // what another policy would make of it
    if (outlook.kind != FT_OUTLOOK_NEVER) out->kind = FT_OUTLOOK_REFIT;
    return FT_OK;
}

static ft_status judge_point(survey_call *call, int64_t index, ft_plan_jobs *jobs) {
    ft_config config;
    char missing[FT_PLAN_MISSING] = "";
    ft_survey_point *out = &call->survey->of[index];
    ft_status status = ft_points_config(&call->survey->points, call->request->config, index, &config);
    if (status == FT_OK) status = judge_config(call, &config, missing, jobs, out);
    ft_arena_free(&config.arena);
    pthread_mutex_lock(&call->lock);
    if (missing[0] != '\0') memcpy(call->survey->missing, missing, sizeof missing);
    if (status == FT_INVALID) {
        *out = (ft_survey_point){.kind = FT_SURVEY_INVALID};
        if (index < call->first_invalid) {
            const char *where = ft_error_where();
            snprintf(call->survey->invalid, sizeof call->survey->invalid, "%.400s%s%.80s%s", ft_error_message(), where[0] != '\0' ? " (" : "", where,
                     where[0] != '\0' ? ")" : "");
            call->first_invalid = index;
        }
        ft_error_clear();
        status = FT_OK;
    }
    pthread_mutex_unlock(&call->lock);
    return status;
}

// ---- all of them --------------------------------------------------------------------------------------------------------

// Neighbours have the same texts, and of the others as much as can be: what a step was laid out for is remembered for a while.
static int by_job(const void *a, const void *b, void *context) {
    const ft_points *p = context;
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    for (int i = 0; i < p->axis_count; i++) {
        if (!ft_plan_jobs_read(p->axes[i].rule->option)) continue;
        const double u = p->value[x * p->axis_count + i], v = p->value[y * p->axis_count + i];
        if (isnan(u) != isnan(v)) return isnan(u) ? -1 : 1;
        if (u != v && !isnan(u)) return u < v ? -1 : 1;
    }
    return (x > y) - (x < y);
}

static bool take_block(survey_call *call, int64_t *first, int64_t *last) {
    pthread_mutex_lock(&call->lock);
    const int64_t count = call->status == FT_OK ? call->survey->points.count : 0;
    *first = call->next;
    *last = call->next + BLOCK < count ? call->next + BLOCK : count;
    call->next = *last > call->next ? *last : call->next;
    pthread_mutex_unlock(&call->lock);
    return *first < *last;
}

static void work(survey_call *call, bool shows) {
    ft_plan_jobs jobs = {.key = NULL};
    int64_t first, last;
    ft_status status = FT_OK;
    while (status == FT_OK && take_block(call, &first, &last)) {
        if (shows) ft_status_line("planning point %lld of %lld", (long long)first + 1, (long long)call->survey->points.count);
        for (int64_t i = first; status == FT_OK && i < last; i++) status = judge_point(call, call->order[i], &jobs);
    }
    ft_plan_jobs_close(&jobs);
    if (shows) ft_status_line("%s", "");
    if (status == FT_OK) return;
    pthread_mutex_lock(&call->lock);
    if (call->status == FT_OK) {
        call->status = status;
        ft_error_save(&call->error);
    }
    pthread_mutex_unlock(&call->lock);
}

static void *work_beside(void *call) {
    ft_context mine; // what was laid out is remembered by context: threads would wait for each other
    ft_context_init(&mine);
    ft_context *before = ft_context_enter(&mine);
    ft_log_set_level(FT_LOG_SILENT);
    work(call, false);
    ft_context_enter(before);
    ft_context_free(&mine);
    return NULL;
}

static ft_status judge_all(survey_call *call) {
    pthread_t thread[MOST_THREADS];
    const int64_t blocks = (call->survey->points.count + BLOCK - 1) / BLOCK;
    int wanted = call->request->threads > 0 ? call->request->threads : ft_cpu_threads(), started = 0;
    if (wanted > MOST_THREADS) wanted = MOST_THREADS;
    if (wanted > blocks) wanted = (int)blocks;
    for (; started + 1 < wanted; started++) // fewer, where the system gives no more
        if (pthread_create(&thread[started], NULL, work_beside, call) != 0) break;
    work(call, true);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    if (call->status != FT_OK) ft_error_restore(&call->error);
    return call->status;
}

// ---- the worst ----------------------------------------------------------------------------------------------------------

// Of two that take the same, the one of which less becomes.
static bool takes_more(const ft_survey_point *a, const ft_survey_point *b) {
    return a->kind != FT_SURVEY_INVALID && (a->bytes > b->bytes || (a->bytes == b->bytes && a->kind > b->kind));
}

static void find_worst(ft_survey *s) {
    static const ft_survey_point none = {.bytes = 0};
    s->worst = -1;
    for (int64_t i = 0; i < s->points.count; i++)
        if (takes_more(&s->of[i], s->worst >= 0 ? &s->of[s->worst] : &none)) s->worst = i;
}

static void add_up(ft_survey *s) {
    const int64_t first = s->points.exhaustive ? 0 : s->points.corners;
    for (int64_t i = first; i < s->points.count; i++) {
        s->count[s->of[i].kind]++;
        s->share[s->of[i].kind] += s->points.weight[i];
    }
}

static ft_status make_order(survey_call *call) {
    ft_survey *s = call->survey;
    s->of = ft_calloc((size_t)s->points.count + 1, sizeof *s->of, "points of a space");
    call->order = ft_calloc((size_t)s->points.count + 1, sizeof *call->order, "points of a space");
    if (s->of == NULL || call->order == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < s->points.count; i++) call->order[i] = i;
    qsort_r(call->order, (size_t)s->points.count, sizeof *call->order, by_job, &s->points);
    return FT_OK;
}

// Are there texts whose order could count? Those of files that are here, or that a point may name.
static bool may_have_texts(const ft_config *config, const ft_space *space) {
    const int option = ft_option_find("data.train");
    bool drawn = false;
    for (int i = 0; i < space->count; i++) drawn |= space->rules[i].option == option;
    char missing[FT_PLAN_MISSING];
    ft_config with = *config;
    if (drawn) return true;
    return ft_plan_find_files(&with, missing) == FT_OK && with.data.train[0] != '\0' && missing[0] == '\0';
}

static ft_status make(survey_call *call) {
    ft_survey *s = call->survey;
    const ft_config *config = call->request->config;
    FT_TRY(ft_space_read(config, &s->space));
    FT_TRY(ft_points_make(&s->space, may_have_texts(config, &s->space), SEED, &s->points));
    FT_TRY(make_order(call));
    FT_TRY(judge_all(call));
    add_up(s);
    find_worst(s);
    if (s->worst >= 0) return FT_OK;
    return ft_fail(FT_INVALID, "[space]", "no point of the space can be trained: %s", s->invalid);
}

ft_status ft_survey_make(const ft_survey_request *request, ft_survey *survey) {
    const double started = ft_now();
    *survey = (ft_survey){.worst = -1};
    survey_call call = {.request = request, .survey = survey, .first_invalid = INT64_MAX,
                        .fits = strcmp(ft_study_options_of(request->config)->memory_policy, "fit") == 0};
    pthread_mutex_init(&call.lock, NULL);
    ft_status status = make(&call);
    pthread_mutex_destroy(&call.lock);
    free(call.order);
    survey->seconds = ft_now() - started;
    return status;
}

void ft_survey_free(ft_survey *s) {
    free(s->of);
    ft_points_free(&s->points);
    ft_space_free(&s->space);
    *s = (ft_survey){.worst = -1};
}

// ---- by parameter -------------------------------------------------------------------------------------------------------

static int by_number(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The values that points have, each once, in order.
static ft_status distinct(const ft_survey *s, int axis, double **values, int64_t *count) {
    const ft_points *p = &s->points;
    *count = 0;
    *values = ft_calloc((size_t)p->count + 1, sizeof **values, "values of a parameter");
    if (*values == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < p->count; i++) {
        const double v = p->value[i * p->axis_count + axis];
        if (!isnan(v)) (*values)[(*count)++] = v;
    }
    qsort(*values, (size_t)*count, sizeof **values, by_number);
    int64_t kept = 0;
    for (int64_t i = 0; i < *count; i++)
        if (kept == 0 || (*values)[i] != (*values)[kept - 1]) (*values)[kept++] = (*values)[i];
    *count = kept;
    return FT_OK;
}

static void label_row(const ft_space_rule *rule, double low, double high, char label[64]) {
    ft_arena arena = {0};
    const char *a = ft_space_value_text(rule, low, &arena), *b = ft_space_value_text(rule, high, &arena);
    const bool path = a != NULL && ft_option_at(rule->option)->type == FT_OPTION_PATH && strrchr(a, '/') != NULL;
    if (path) a = strrchr(a, '/') + 1;
    if (low == high || a == NULL || b == NULL) snprintf(label, 64, "%s", a == NULL || a[0] == '\0' ? "(empty)" : a);
    else snprintf(label, 64, "%.28s to %.28s", a, b);
    ft_arena_free(&arena);
}

ft_status ft_survey_by(const ft_survey *s, int axis, ft_survey_row rows[FT_SURVEY_ROWS], int *count) {
    const ft_points *p = &s->points;
    const ft_axis *a = &p->axes[axis];
    double *values;
    int64_t values_count;
    *count = 0;
    if (!a->matters) return FT_OK;
    FT_TRY(distinct(s, axis, &values, &values_count));
    const int64_t n = values_count < 2 ? 0 : values_count < FT_SURVEY_ROWS ? values_count : FT_SURVEY_ROWS; // choices beyond them go together too
    for (int64_t k = 0; k < n; k++) {
        const double low = values[k * values_count / n], high = values[(k + 1) * values_count / n - 1];
        ft_survey_row *row = &rows[k];
        *row = (ft_survey_row){.weight = 0};
        label_row(a->rule, low, high, row->label);
        for (int64_t i = 0; i < p->count; i++) {
            const double v = p->value[i * p->axis_count + axis];
            if (!(v >= low && v <= high)) continue;
            row->weight += p->weight[i];
            row->share[s->of[i].kind] += p->weight[i];
            if (s->of[i].bytes > row->most) row->most = s->of[i].bytes;
        }
        for (int j = 0; j < FT_SURVEY_KINDS && row->weight > 0; j++) row->share[j] /= row->weight;
    }
    *count = (int)n;
    free(values);
    return FT_OK;
}
