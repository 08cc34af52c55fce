#include "hpo/report/belief.h"

#include "base/files.h"
#include "base/log.h"
#include "hpo/space/options_study.h"
#include "hpo/space/space.h"

#include <string.h>

static ft_status take(const ft_config *config, int objectives, ft_arena *arena, ft_report_settings *out) {
    const ft_study_options *o = ft_study_options_of(config);
    ft_space space;
    FT_TRY(ft_space_read(config, &space));
    // Freeze-thaw finds the places by itself.
    const bool pauses = strcmp(o->sampler, "auto") == 0 && strcmp(o->pruner, "freeze_thaw") == 0;
    const char *sampler = pauses ? "freeze_thaw" : ft_study_sampler_name(o, &space, objectives);
    *out = (ft_report_settings){.sampler = ft_arena_strdup(arena, sampler),
                                .seed = (uint64_t)o->seed,
                                .startup_trials = o->startup_trials,
                                .constant_liar = o->constant_liar,
                                .count_failed = o->count_failed,
                                .memory_over = o->report_memory_over > 0 ? o->report_memory_over : 0};
    ft_space_free(&space);
    return out->sampler != NULL ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_report_settings_load(const char *directory, int objectives, ft_arena *arena, ft_report_settings *out) {
    const char *path = directory != NULL ? ft_path_join(arena, directory, "config.ini") : NULL;
    *out = (ft_report_settings){.startup_trials = 10, .constant_liar = true, .count_failed = true};
    if (directory != NULL && path == NULL) return FT_NO_MEMORY;
    if (path == NULL || !ft_path_exists(path)) return FT_OK;
    ft_config config;
    ft_status status = ft_study_config_load(&config, 1, &path, 0, NULL);
    if (status == FT_OK) {
        status = take(&config, objectives, arena, out);
        ft_config_free(&config);
        if (status == FT_OK) return FT_OK;
    }
    if (status != FT_INVALID) return status;
    ft_warn("%s is not read: %s", path, ft_error_message());
    ft_error_clear();
    return FT_OK;
}

ft_status ft_study_belief_of(const ft_trials *trials, const ft_report_settings *settings, ft_arena *arena,
                             ft_study_belief **out) {
    ft_study_belief *b = *out = ft_arena_alloc(arena, sizeof *b);
    if (b == NULL) return FT_NO_MEMORY;
    b->options = ft_gp_defaults();
    b->options.seed = settings->seed;
    b->options.pending = settings->constant_liar;
    const bool always = settings->sampler != NULL && strcmp(settings->sampler, "gp") == 0;
    return ft_gp_insight_of(trials, &b->options, always, arena, &b->insight, &b->silence);
}
