// ranks.c - `ftengine plan --devices`: the share of one of several devices, and what their sums of gradients cost.
#include "engine/commands/plan/command.h"

#include "kernels/devices/devices.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 1024, MOST_CHANNELS = 64, NVLINK_CHANNELS = 16, PCIE_CHANNELS = 4 };

static ft_status whole_number(const char *flag, const char *word, long least, long most, int *value) {
    char *end;
    const long n = strtol(word, &end, 10);
    if (end == word || *end != '\0' || n < least || n > most)
        return ft_fail(FT_INVALID, "plan", "%s takes a whole number from %ld to %ld; got \"%s\"", flag, least, most,
                       word);
    *value = (int)n;
    return FT_OK;
}

// Shares are as equal as they can be: one rank's is at most this.
static ft_status share_batch(ft_plan_task *task) {
    ft_config *c = &task->config;
    const int64_t n = task->ranks.devices;
    task->batch_size = c->train.batch_size;
    if (c->train.batch_size < n) {
        ft_fail(FT_INVALID, "train.batch_size",
                "%lld sequences for %lld devices: a batch is shared out, and each needs one",
                (long long)c->train.batch_size, (long long)n);
        ft_hint("train.batch_size is of all devices together");
        return FT_INVALID;
    }
    c->train.batch_size = (c->train.batch_size + n - 1) / n;
    if (c->train.micro_batch != FT_AUTO && c->train.micro_batch > c->train.batch_size)
        c->train.micro_batch = c->train.batch_size;
    return FT_OK;
}

// A name, or several: the option's own.
static bool is_number(const char *word) { return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0'; }

ft_status ft_plan_take_ranks(const char *devices, const char *link, const char *channels, ft_plan_task *task) {
    ft_scaling_request *r = &task->ranks;
    int count = 1;
    if (devices != NULL && !is_number(devices)) {
        FT_TRY(ft_option_set(&task->config, ft_option_at(ft_option_find("device.name")), devices, NULL, "--devices"));
        devices = NULL;
    }
    if (devices != NULL) FT_TRY(whole_number("--devices", devices, 1, MOST_DEVICES, &count));
    if (count < 2)
        return link == NULL && channels == NULL
                   ? FT_OK
                   : ft_fail(FT_INVALID, "plan", "%s says something of several GPUs: give --devices N",
                             link != NULL ? "--link-speed" : "--channels");
    if (task->card == NULL || strcmp(task->config.device.name, "cpu") == 0) {
        ft_fail(FT_INVALID, "plan", "--devices %d: of what? Give the card that there are so many of", count);
        ft_hint("ftengine plan CONFIG.ini --devices %d --gpu H200; ranks on the CPU are device.name = cpu,cpu", count);
        return FT_INVALID;
    }
    FT_TRY(ft_link_of_card(task->card, &r->link, &r->rates));
    if (link != NULL) FT_TRY(ft_link_find(link, &r->link));
    r->devices = count;
    r->channels = strncmp(r->link.name, "pcie", 4) == 0 ? PCIE_CHANNELS : NVLINK_CHANNELS;
    r->sm_count = task->card->sm_count;
    if (channels != NULL) FT_TRY(whole_number("--channels", channels, 1, MOST_CHANNELS, &r->channels));
    return share_batch(task);
}

void ft_plan_print_ranks(const ft_plan_task *task, const ft_plan *plan) {
    const ft_scaling *s = &plan->scaling;
    char a[24], b[24];
    printf("\nranks         %d of %s, train.batch_size %lld shared out: %lld sequences each, and all above is of one "
           "of them\n",
           s->devices, task->card->name, (long long)task->batch_size, (long long)task->config.train.batch_size);
    printf("communication %s of each device for NCCL, assumed: %d channels of 12MiB (--channels); not in the figures "
           "above, off the budget\n",
           ft_bytes_text(s->communication, a), s->channels);
    printf("gradients     %s of each rank are summed in %d parts while the backward pass goes on\n",
           ft_bytes_text(s->gradients, b), s->buckets);
    printf("link          %.4g GB/s, %s (%s)\n", s->link.bytes / 1e9, s->link.name, s->link.source);
    printf("step          %.2f ms predicted, every kernel at its bound: %.2f alone, %.2f of %.2f of sums not hidden, "
           "%.2f slower beside them\n",
           1e3 * s->step, 1e3 * s->alone, 1e3 * s->exposed, 1e3 * s->reducing, 1e3 * s->slowed);
    printf("efficiency    %.1f%% of %d times one device with such a share; exposed %.1f%% of a step\n",
           100 * s->alone / s->step, s->devices, 100 * s->exposed / s->step);
    printf("model state   of a rank by distributed.shard:");
    for (int i = 0; i < FT_SHARDS; i++)
        printf("%s %s %s (%.2f)", i > 0 ? "," : "", ft_shard_name(i), ft_bytes_text(s->state[i], a),
               (double)s->state[i] / (double)s->state[FT_SHARD_NONE]);
    printf("\n              A plan only: no run trains on several GPUs yet, and none shards.\n");
}
