// task_names.c - the tasks by name, from tasks.def.
#include "engine/config/config.h"

#include <string.h>

static const struct {
    const char *name, *problem_type;
    ft_loss_choice loss;
} tasks[FT_TASK_COUNT] = {[FT_TASK_AUTO] = {"auto", "single_label_classification", FT_LOSS_AUTO},
#define FT_TASK_LINE(id, name, also, problem_type, loss, help) [FT_TASK_##id] = {#name, problem_type, FT_LOSS_##loss},
#include "engine/config/tasks.def"
#undef FT_TASK_LINE
};

// What else is to be known of a loss: does it read numbers a text, no class; has it a focal form; does it smooth labels?
static const struct {
    bool targets, focal, smooths;
} losses[] = {[FT_LOSS_AUTO] = {.smooths = true},
              [FT_LOSS_CROSS_ENTROPY] = {.focal = true, .smooths = true},
              [FT_LOSS_FOCAL] = {.focal = true},
              [FT_LOSS_BCE] = {.targets = true, .focal = true},
              [FT_LOSS_MSE] = {.targets = true},
              [FT_LOSS_SPANS] = {.targets = false}};

const char *ft_task_name(ft_task task) { return tasks[task].name; }
const char *ft_task_problem_type(ft_task task) { return tasks[task].problem_type; }

ft_task ft_task_named(const char *name) {
    for (int k = FT_TASK_AUTO + 1; name != NULL && k < FT_TASK_COUNT; k++)
        if (strcmp(name, tasks[k].name) == 0) return (ft_task)k;
    return FT_TASK_AUTO;
}

ft_task ft_task_of_problem_type(const char *problem_type) {
    for (int k = FT_TASK_AUTO + 1; problem_type != NULL && k < FT_TASK_COUNT; k++)
        if (strcmp(problem_type, tasks[k].problem_type) == 0) return (ft_task)k;
    return FT_TASK_AUTO;
}

ft_loss_choice ft_task_loss(ft_task task) { return tasks[task].loss; }

bool ft_task_has_loss(ft_task task, ft_loss_choice loss) {
    const ft_loss_choice usual = tasks[task].loss;
    return usual == FT_LOSS_AUTO || loss == FT_LOSS_AUTO || loss == usual || (loss == FT_LOSS_FOCAL && losses[usual].focal);
}

bool ft_task_smooths(ft_task task) { return losses[tasks[task].loss].smooths; }
bool ft_loss_smooths(ft_loss_choice loss) { return losses[loss].smooths; }
bool ft_loss_reads_targets(ft_loss_choice loss) { return losses[loss].targets; }
