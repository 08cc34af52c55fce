#include "engine/config/share.h"

static int64_t part_of(int64_t steps, int64_t one_in) { return steps / one_in + (steps % one_in != 0); }

ft_config ft_config_of_share(const ft_config *config, int64_t one_in) {
    ft_config one = *config;
    one.data.shares = (ft_int_list){0};
    one.data.share = one_in;
    one.train.max_steps = part_of(config->train.max_steps, one_in); // 0 of these stays 0: not given
    one.train.warmup_steps = part_of(config->train.warmup_steps, one_in);
    one.eval.steps = part_of(config->eval.steps, one_in);
    return one;
}
