// belief.h - what the Gaussian process believes of a study (search/gp/insight.h), with the options that the study's
// configuration has. For its page and for `ftengine study show`.
#ifndef FT_HPO_REPORT_BELIEF_H
#define FT_HPO_REPORT_BELIEF_H

#include "hpo/search/gp/insight.h"

// What of a study's configuration its reports go by. Another program's study, and one of `study ask`, has none.
typedef struct ft_report_settings {
    const char *sampler; // study.sampler, of auto what it stands for beside gp; NULL: there is no configuration
    uint64_t seed;
    int64_t startup_trials;
    bool constant_liar, count_failed;
    int64_t memory_over; // study.report_memory_over in bytes; 0: none
} ft_report_settings;
// directory: the study's, or NULL. A configuration that cannot be read is passed over with a warning.
ft_status ft_report_settings_load(const char *directory, int objectives, ft_arena *arena, ft_report_settings *out);

typedef struct ft_study_belief {
    ft_gp_options options;
    ft_gp_insight insight;
    ft_gp_silence silence; // other than FT_GP_SPEAKS: why there is none
} ft_study_belief;
ft_status ft_study_belief_of(const ft_trials *trials, const ft_report_settings *settings, ft_arena *arena,
                             ft_study_belief **out);

#endif
