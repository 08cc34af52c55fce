// words.c - what a report, a table and a sweep of plans say in the same words: what was asked for, the budget, the card, the model, what
// the numbers hold for.
#include "engine/commands/plan/command.h"

#include "base/context.h"
#include "base/files.h"
#include "base/json/json.h"
#include "engine/hub/known_models.h"
#include "kernels/devices/devices.h"

#include <stdlib.h>
#include <string.h>

ft_plan_request ft_plan_request_of(const ft_plan_task *task) {
    return (ft_plan_request){.labels = task->labels, .card = task->card, .whole_device = task->memory_given,
                             .scaling = task->ranks.devices > 0 ? &task->ranks : NULL};
}

void ft_plan_budget_text(const ft_plan_task *task, const ft_config *config, size_t budget, char *out, size_t size) {
    char bytes[24], whole[24], outside[24];
    ft_bytes_text(budget, bytes);
    if (task->card == NULL) {
        const char *source = task->memory_given          ? ""
                             : config->memory.limit != 0 ? " (memory.limit)"
                                                         : " (this machine)";
        snprintf(out, size, "%s%s", bytes, source);
        return;
    }
    ft_bytes_text(task->card->bytes, whole);
    ft_bytes_text(FT_CARD_OUTSIDE_BYTES, outside);
    snprintf(out, size, "%s (%s: %s%s, less %s outside the allocator, assumed)", bytes, task->card->name, whole,
             task->card->reported ? " as CUDA reports it" : " nominally", outside);
}

json_t *ft_plan_card_json(const ft_plan_task *task) {
    const ft_card *card = task->card;
    if (card == NULL) return NULL;
    return json_pack("{s:s, s:I, s:s, s:I}", "name", card->name, "total_bytes", (json_int_t)card->bytes, "total_is",
                     card->reported ? "reported" : "nominal", "outside_assumed_bytes",
                     (json_int_t)FT_CARD_OUTSIDE_BYTES);
}

const char *ft_plan_model_name(const ft_config *config) {
    const char *path = config->model.path, *slash = strrchr(path, '/');
    const ft_known_model *known = ft_path_exists(path) ? NULL : ft_known_model_find(path);
    if (known != NULL) return known->name;
    return slash != NULL ? slash + 1 : path;
}

ft_status ft_plan_refuse_card(const ft_plan_task *task, const ft_plan *plan) {
    ft_fail(FT_NO_DEVICE, task->card != NULL ? task->card->name : task->config.device.name,
            "not supported: the kernels need compute capability %d.%d, and this card has %d.%d", FT_GPU_MINIMUM_CAPABILITY / 10,
            FT_GPU_MINIMUM_CAPABILITY % 10, plan->compute_capability / 10, plan->compute_capability % 10);
    ft_hint("device.name=cpu trains beside it; any card since Ampere (A100, RTX 3060, L4, ...) runs them");
    return FT_NO_DEVICE;
}

void ft_plan_print_notes(const ft_plan *plan, const char *missing) {
    printf("\nThe kernels' scratch is planned for %s", plan->threads > 0 ? "the CPU back end" : "CUDA");
    if (plan->threads > 0) printf(" with %d threads", plan->threads);
    printf(".\n");
    if (missing[0] != '\0') printf("All texts are planned as long as data.max_length allows: %s.\n", missing);
}

void ft_plan_csv_field(const char *text) {
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}

ft_status ft_plan_write_json(json_t *root, bool failed) {
    if (root != NULL && !failed) ft_json_write(ft_results(), root);
    json_decref(root);
    return root == NULL || failed ? ft_fail_memory(0, "the plan as JSON") : FT_OK;
}
