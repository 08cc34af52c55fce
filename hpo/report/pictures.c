// pictures.c - which pictures a study has.
#include "hpo/report/pictures.h"

#include "base/arena.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
    const ft_summary *s;
    ft_arena *arena;
    ft_study_picture *list;
    int count, capacity;
    bool failed; // out of memory
} maker;

// `file` and `title` from the arena; a NULL of theirs is out of memory.
static void add(maker *m, ft_study_picture picture) {
    if (m->count == m->capacity) {
        int capacity = 2 * m->capacity + 16;
        ft_study_picture *grown = ft_arena_alloc(m->arena, (size_t)capacity * sizeof *grown);
        m->failed |= grown == NULL;
        if (grown == NULL) return;
        if (m->count > 0) memcpy(grown, m->list, (size_t)m->count * sizeof *grown);
        m->list = grown;
        m->capacity = capacity;
    }
    m->failed |= picture.file == NULL || picture.title == NULL;
    m->list[m->count++] = picture;
}

// A file's name of a parameter's: what could mean something to a shell or a file system becomes '_'.
static const char *file_name(ft_arena *arena, const char *kind, int place, const char *name) {
    char safe[64];
    size_t length = 0;
    for (; name[length] != '\0' && length + 1 < sizeof safe; length++)
        safe[length] = isalnum((unsigned char)name[length]) || strchr("._-", name[length]) != NULL ? name[length] : '_';
    safe[length] = '\0';
    return ft_arena_format(arena, "%s-%02d-%s", kind, place, safe);
}

static int64_t complete_count(const ft_summary *s, int objective) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++)
        count += !isnan(ft_report_value(s, i, objective));
    return count;
}

static void add_values(maker *m) {
    const ft_summary *s = m->s;
    const int objectives = s->study->objectives;
    for (int o = 0; o < objectives; o++) {
        bool any = false;
        for (int64_t i = 0; i < s->count && !any; i++)
            any = !isnan(ft_report_value(s, i, o)) || !isnan(ft_report_pruned_at(s, i));
        if (any)
            add(m, (ft_study_picture){.section = "History",
                                      .width = objectives == 1 ? 1140 : 560,
                                      .height = 340,
                                      .objective = o,
                                      .file = file_name(m->arena, "history", o + 1, s->objectives[o]),
                                      .title = ft_arena_format(m->arena, "%s over the trials", s->objectives[o]),
                                      .draw = ft_draw_history});
    }
    for (int o = 0; o < objectives; o++)
        for (int other = o + 1; other < objectives && complete_count(s, 0) > 0; other++)
            add(m, (ft_study_picture){
                       .section = "Pareto front",
                       .width = 560,
                       .height = 400,
                       .objective = o,
                       .other = other,
                       .file = ft_arena_format(m->arena, "front-%d-%d", o + 1, other + 1),
                       .title = ft_arena_format(m->arena, "%s and %s", s->objectives[o], s->objectives[other]),
                       .draw = ft_draw_front});
}

static void add_slices(maker *m, int objective) {
    const ft_summary *s = m->s;
    for (int k = 0; k < s->varying && k < FT_PICTURE_PARAMS; k++) {
        int64_t trials = 0;
        for (int64_t i = 0; i < s->count && trials == 0; i++)
            trials += !isnan(ft_report_value(s, i, objective) + ft_report_param_value(s, i, &s->params[k]));
        if (trials == 0) continue;
        const char *kind = objective == 0 ? "slice" : ft_arena_format(m->arena, "slice%d", objective + 1);
        if (kind == NULL) m->failed = true;
        add(m, (ft_study_picture){
                   .section = "Slices",
                   .remark = "Each complete trial at its value of a parameter. The best is a diamond.",
                   .width = 380,
                   .height = 310,
                   .objective = objective,
                   .param = k,
                   .file = file_name(m->arena, kind != NULL ? kind : "", k + 1, s->params[k].text),
                   .title = s->study->objectives == 1
                                ? s->params[k].text
                                : ft_arena_format(m->arena, "%s: %s", s->objectives[objective], s->params[k].text),
                   .draw = ft_draw_slice});
    }
}

static const char belief_remark[] =
    "What a Gaussian process of the trials believes, over pairs of the parameters that mattered most, the others as in the best trial that "
    "goes with both. First what it expects: worse than the middle trial is one class, since there it sees ranks alone. Then the deviation "
    "of that: how far off the expectation may be, without the luck of a single trial. The ring is where most gain is expected, strokes are "
    "where a trial rather fails or breaks a limit. Dots are trials, the diamond is the best with both.";

static void add_belief(maker *m, int a, int b, const ft_gp_plane *plane) {
    const ft_summary *s = m->s;
    for (int k = 0; k < 2; k++)
        add(m, (ft_study_picture){.section = "Beliefs",
                                  .remark = belief_remark,
                                  .width = 560,
                                  .height = 420,
                                  .param = a,
                                  .second = b,
                                  .plane = plane,
                                  .file = ft_arena_format(m->arena, "belief-%d-%d-%s", a + 1, b + 1, k == 0 ? "expected" : "deviation"),
                                  .title = ft_arena_format(m->arena, "%s: %s and %s", k == 0 ? "Expected" : "Deviation", s->params[a].text,
                                                           s->params[b].text),
                                  .draw = k == 0 ? ft_draw_expected : ft_draw_doubt});
}

static void add_contour(maker *m, int a, int b, const char *why) {
    const ft_summary *s = m->s;
    const char *remark =
        ft_arena_format(m->arena,
                        "How good the trials around each place are: their mean rank, for pairs of the parameters that mattered most. Dots are "
                        "trials. What a Gaussian process believes is not shown, since %s.",
                        why);
    m->failed |= remark == NULL;
    add(m, (ft_study_picture){.section = "Contours",
                              .remark = remark,
                              .width = 560,
                              .height = 420,
                              .param = a,
                              .second = b,
                              .file = ft_arena_format(m->arena, "contour-%d-%d", a + 1, b + 1),
                              .title = ft_arena_format(m->arena, "%s and %s", s->params[a].text, s->params[b].text),
                              .draw = ft_draw_contour});
}

static int64_t with_both(const ft_summary *s, int a, int b) {
    int64_t both = 0;
    for (int64_t i = 0; i < s->count; i++)
        both += !isnan(ft_report_value(s, i, 0) + ft_report_param_value(s, i, &s->params[a]) +
                       ft_report_param_value(s, i, &s->params[b]));
    return both;
}

// Pairs of the three most important parameters: what is believed, and how the trials are where nothing is.
static ft_status add_pairs(maker *m) {
    enum { PAIRS = 3 };
    const ft_summary *s = m->s;
    const int most = s->varying < 3 ? s->varying : 3;
    const bool speaks = s->belief->silence == FT_GP_SPEAKS;
    int pair[PAIRS][2], left = 0;
    for (int a = 0; a < most; a++)
        for (int b = a + 1; b < most; b++) {
            if (with_both(s, a, b) < 4) continue;
            ft_gp_plane *plane = speaks ? ft_arena_alloc(m->arena, sizeof *plane) : NULL;
            if (speaks && plane == NULL) return FT_NO_MEMORY;
            if (speaks) FT_TRY(ft_gp_insight_plane(&s->belief->insight, s->params[a].name, s->params[b].name, m->arena, plane));
            if (speaks && plane->trial >= 0) add_belief(m, a, b, plane);
            else pair[left][0] = a, pair[left++][1] = b;
        }
    for (int k = 0; k < left; k++)
        add_contour(m, pair[k][0], pair[k][1], speaks ? "no trial with both is within all limits" : ft_gp_silence_text(s->belief->silence));
    return FT_OK;
}

static ft_status add_params(maker *m) {
    const ft_summary *s = m->s;
    const int objectives = s->study->objectives;
    int bars = s->varying < FT_PICTURE_BARS ? s->varying : FT_PICTURE_BARS;
    if (complete_count(s, 0) < 2 || s->varying == 0) return FT_OK;
    for (int o = -1; o < (objectives > 1 ? objectives : 0); o++)
        add(m, (ft_study_picture){.section = "Importances",
                                  .remark = objectives > 1 ? "Which parameters decide whether a trial is among the best tenth (PED-ANOVA): of all "
                                                             "objectives together, where that is by fronts, and of each by itself."
                                                           : "Which parameters decide whether a trial is among the best tenth (PED-ANOVA).",
                                  .width = objectives == 1 || o < 0 ? 1140 : 560,
                                  .height = 58 + 19 * bars,
                                  .objective = o,
                                  .file = o < 0 ? "importances" : file_name(m->arena, "importances", o + 1, s->objectives[o]),
                                  .title = objectives == 1 ? "Importance of parameters"
                                           : o < 0         ? "Importance of parameters for all objectives"
                                                           : ft_arena_format(m->arena, "Importance of parameters for %s", s->objectives[o]),
                                  .draw = ft_draw_importance});
    add(m, (ft_study_picture){.section = "Parallel coordinates",
                              .width = 1140,
                              .height = 420,
                              .file = "parallel",
                              .title = "Trials through the most important parameters",
                              .draw = ft_draw_parallel});
    for (int o = 0; o < objectives && o < 3; o++)
        add_slices(m, o);
    return add_pairs(m);
}

static ft_status add_machine(maker *m) {
    const ft_summary *s = m->s;
    int64_t measured = 0, both = 0, dated = 0, reports = 0;
    for (int64_t i = 0; i < s->count; i++) {
        measured += !isnan(s->trials[i].measured);
        both += !isnan(s->trials[i].measured + s->trials[i].planned);
        dated += s->trials[i].end >= s->trials[i].start;
        reports += s->trials[i].trial->report_count > 0 && s->study->objectives == 1;
    }
    if (reports > 0)
        add(m,
            (ft_study_picture){.section = "Intermediate values",
                               .width = 1140,
                               .height = 400,
                               .file = "intermediate",
                               .title = ft_arena_format(m->arena, "%s over the steps of each trial", s->objectives[0]),
                               .draw = ft_draw_curves});
    if (both > 0)
        add(m, (ft_study_picture){.section = "Memory",
                                  .width = 560,
                                  .height = 380,
                                  .file = "memory-planned",
                                  .title = "Memory, planned and measured",
                                  .draw = ft_draw_planned});
    if (measured > 0)
        add(m, (ft_study_picture){.section = "Memory",
                                  .width = 560,
                                  .height = 380,
                                  .file = "memory",
                                  .title = "Peak of memory over the trials",
                                  .draw = ft_draw_memory});
    ft_study_picture timeline = {.section = "Timeline",
                                 .width = 1140,
                                 .file = "timeline",
                                 .title = "Trials on their devices",
                                 .draw = ft_draw_timeline};
    FT_TRY(ft_timeline_height(s, &timeline.height));
    if (dated > 0) add(m, timeline);
    return FT_OK;
}

ft_status ft_study_pictures(const ft_summary *s, ft_arena *arena, ft_study_picture **pictures, int *count) {
    maker m = {.s = s, .arena = arena};
    add_values(&m);
    FT_TRY(add_params(&m));
    FT_TRY(add_machine(&m));
    *pictures = m.list;
    *count = m.count;
    return m.failed ? FT_NO_MEMORY : FT_OK;
}

ft_status ft_study_picture_write(const ft_summary *s, const ft_study_picture *picture, bool alone, FILE *out) {
    ft_picture_begin(out, picture->title, picture->width, picture->height, alone);
    ft_status status = picture->draw(s, picture, out);
    ft_picture_end(out);
    return status;
}
