// ranks.c - `ftengine plan --devices`: the share of one of several devices, and what their sums of gradients cost.
#include "engine/commands/plan/command.h"

#include "engine/commands/device_names.h"
#include "engine/config/device_list.h"
#include "kernels/devices/devices.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 1024, MOST_CHANNELS = 64 };

static ft_status whole_number(const char *flag, const char *word, long least, long most, int *value) {
    char *end;
    const long n = strtol(word, &end, 10);
    if (end == word || *end != '\0' || n < least || n > most)
        return ft_fail(FT_INVALID, "plan", "%s takes a whole number from %ld to %ld; got \"%s\"", flag, least, most,
                       word);
    *value = (int)n;
    return FT_OK;
}

// A rank on each; what all together have is the run's.
static ft_status deal(ft_plan_task *task, int n) {
    ft_config *c = &task->config;
    if (c->train.batch_size * c->train.gradient_accumulation_steps < n) {
        ft_fail(FT_INVALID, "train.batch_size",
                "%lld sequences for %d devices: a batch is shared out, and each needs one",
                (long long)(c->train.batch_size * c->train.gradient_accumulation_steps), n);
        ft_hint("train.batch_size is of all devices together");
        return FT_INVALID;
    }
    c->device.name = ft_device_list_of_gpus(&c->arena, n);
    return c->device.name != NULL ? FT_OK : FT_NO_MEMORY;
}

// Are there so many GPUs here?
static bool are_here(int count) {
    ft_gpus *gpus;
    int there = 0;
    if (ft_gpus_open(&gpus) != FT_OK || ft_gpus_count(gpus, &there) != FT_OK) there = 0;
    ft_error_clear(); // the device that is planned for says what is missing
    ft_gpus_close(gpus);
    return there >= count;
}

// A name, or several: the option's own.
static bool is_number(const char *word) { return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0'; }

static ft_status take_channels(const char *channels, ft_plan_task *task) {
    int count = 0;
    FT_TRY(whole_number("--channels", channels, 1, MOST_CHANNELS, &count));
    task->config.distributed.channels = count;
    return FT_OK;
}

ft_status ft_plan_take_ranks(const char *devices, const char *link, const char *channels, ft_plan_task *task) {
    ft_scaling_request *r = &task->ranks;
    int count = 1;
    if (devices != NULL && !is_number(devices)) {
        FT_TRY(ft_option_set(&task->config, ft_option_at(ft_option_find("device.name")), devices, NULL, "--devices"));
        FT_TRY(ft_device_list_spell_out(&task->config));
        devices = NULL;
    }
    FT_TRY(ft_device_names_find(&task->config));
    if (devices != NULL) FT_TRY(whole_number("--devices", devices, 1, MOST_DEVICES, &count));
    if (count < 2)
        return link == NULL && channels == NULL
                   ? FT_OK
                   : ft_fail(FT_INVALID, "plan", "%s says something of several GPUs: give --devices N",
                             link != NULL ? "--link-speed" : "--channels");
    if (task->card == NULL && link == NULL && strcmp(task->config.device.name, "cpu") != 0 && are_here(count)) {
        if (channels != NULL) FT_TRY(take_channels(channels, task));
        return deal(task, count);
    }
    if (task->card == NULL || strcmp(task->config.device.name, "cpu") == 0) {
        ft_fail(FT_INVALID, "plan", "--devices %d: of what? Give the card that there are so many of", count);
        ft_hint("ftengine plan CONFIG.ini --devices %d --gpu H200; ranks on the CPU are device.name = cpu,cpu", count);
        return FT_INVALID;
    }
    FT_TRY(ft_link_of_card(task->card, &r->link, &r->rates));
    if (link != NULL) FT_TRY(ft_link_find(link, &r->link));
    if (channels != NULL) FT_TRY(take_channels(channels, task));
    r->devices = count;
    r->channels = (int)task->config.distributed.channels;
    r->sm_count = task->card->sm_count;
    return deal(task, count);
}

void ft_plan_print_ranks(const ft_plan_task *task, const ft_plan *plan) {
    const ft_scaling *s = &plan->scaling;
    const int64_t batch = task->config.train.batch_size;
    char a[24], b[24];
    printf("\nranks         %d of %s, train.batch_size %lld shared out: %lld sequences each, and all above is of one "
           "of them\n",
           s->devices, task->card->name, (long long)batch, (long long)((batch + s->devices - 1) / s->devices));
    printf("communication %s of each device for NCCL: %d channels of 12MiB (distributed.channels); not in the figures "
           "above, off the budget\n",
           ft_bytes_text(s->communication, a), s->channels);
    printf("gradients     %s of each rank are summed in %d parts while the backward pass goes on\n",
           ft_bytes_text(s->gradients, b), s->buckets);
    if (s->words.rows > 0)
        printf("words         %lld of %lld rows of the word table in a step%s: %s\n", (long long)s->words.in_step,
               (long long)s->words.rows, s->words.assumed ? ", assumed, as English texts of that length have" : "",
               s->words.by_row ? "they alone are summed" : "all rows are summed");
    printf("link          %.4g GB/s, %s (%s)\n", s->link.bytes / 1e9, s->link.name, s->link.source);
    printf("step          %.2f ms predicted, every kernel at its bound: %.2f alone, %.2f of %.2f of sums not hidden, "
           "%.2f slower beside them\n",
           1e3 * s->step, 1e3 * s->alone, 1e3 * s->exposed, 1e3 * s->reducing, 1e3 * s->slowed);
    if (s->spread > 0)
        printf("dealt out     %.2f ms less of the update, %.2f more until all have the new weights: both are in the step\n",
               1e3 * s->dealt, 1e3 * s->spread);
    printf("efficiency    %.1f%% of %d times one device with such a share; exposed %.1f%% of a step\n",
           100 * s->alone / s->step, s->devices, 100 * s->exposed / s->step);
    printf("model state   of a rank by distributed.shard:");
    for (int i = 0; i < FT_SHARDS; i++)
        printf("%s %s %s (%.2f)", i > 0 ? "," : "", ft_shard_name(i), ft_bytes_text(s->state[i], a),
               (double)s->state[i] / (double)s->state[FT_SHARD_NONE]);
    printf("\n              this plan: %s%s\n", ft_shard_name(s->shard),
           s->shard == FT_SHARD_GRADIENTS && !s->whole_steps
               ? "; a rank has several micro-batches a step, and keeps its gradients whole"
               : "");
}
