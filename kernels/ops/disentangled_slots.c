// Which distance has which slot in the tables of disentangled attention, for every back end.
#include "kernels/ops/disentangled_attention.h"

#include <math.h>
#include <stdlib.h>

int32_t ft_relative_span(ft_relative_rule rule) { return rule.buckets > 0 ? rule.buckets : rule.furthest; }

ft_status ft_relative_rule_check(ft_relative_rule rule) {
    if (rule.furthest < 1)
        return ft_fail(FT_INVALID, "max_relative_positions", "relative attention needs at least 1 position, got %d",
                       rule.furthest);
    if (rule.buckets == 1)
        return ft_fail(FT_INVALID, "position_buckets", "1 bucket cannot hold a distance: at least 2, or none (-1)");
    // Further ones have the logarithm of their distance divided by that of this quotient, which is 0 where it is 1: the library then
    // turns an infinity into a whole number, each machine in its own way. Smaller ones (a table larger than it needs to be) have a value.
    if (rule.buckets > 0 && rule.furthest - 1 == rule.buckets / 2)
        return ft_fail(FT_INVALID, "position_buckets",
                       "%d buckets give a distance each up to %d: with max_relative_positions %d further ones have none; it must be another number",
                       rule.buckets, rule.buckets / 2, rule.furthest);
    return FT_OK;
}

int32_t ft_relative_slot(ft_relative_rule rule, int32_t delta) {
    int64_t span = ft_relative_span(rule), bucket = delta;
    int32_t mid = rule.buckets / 2, distance = abs(delta);
    if (rule.buckets > 0 && distance > mid) {
        // Single precision, like the library the weights were trained with: where the quotient of the logarithms is a
        // whole number, precisions disagree about what comes next. Both logarithms alike, so that it is 1 at the end.
        float most = logf((float)((double)(rule.furthest - 1) / mid));
        bucket = (int64_t)ceilf(logf((float)distance / (float)mid) / most * (float)(mid - 1)) + mid;
        if (delta < 0) bucket = -bucket;
    }
    int64_t slot = bucket + span;
    return (int32_t)(slot < 0 ? 0 : slot > 2 * span - 1 ? 2 * span - 1 : slot);
}

int32_t ft_relative_reach(ft_relative_rule rule, int32_t longest) {
    int32_t reach = longest > 1 ? longest - 1 : 0;
    while (reach > 0 && ft_relative_slot(rule, reach) == ft_relative_slot(rule, reach - 1) &&
           ft_relative_slot(rule, -reach) == ft_relative_slot(rule, 1 - reach))
        reach--;
    return reach;
}

void ft_relative_slots(ft_relative_rule rule, int32_t reach, int32_t *slots) {
    for (int32_t delta = -reach; delta <= reach; delta++)
        slots[delta + reach] = ft_relative_slot(rule, delta);
}
