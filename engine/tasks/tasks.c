#include "engine/tasks/tasks.h"

#include "engine/tasks/rows.h"

static const ft_task_spec *const tasks[FT_TASK_COUNT] = {
#define FT_TASK_LINE(id, name, ...) [FT_TASK_##id] = &ft_task_##name,
#include "engine/config/tasks.def"
#undef FT_TASK_LINE
};

const ft_task_spec *ft_task_spec_of(ft_task task) { return tasks[task == FT_TASK_AUTO ? FT_TASK_SINGLE_LABEL : task]; }

const ft_task_spec *ft_task_suiting(const ft_table *train) {
    for (int k = FT_TASK_AUTO + 1; k < FT_TASK_COUNT; k++)
        if (tasks[k]->suits != NULL && tasks[k]->suits(train)) return tasks[k];
    return ft_task_spec_of(FT_TASK_AUTO);
}

void ft_task_put_answer(const ft_task_spec *task, const ft_answer *a, const char *key, json_t *line, bool *failed) {
    if (task->decided != NULL) ft_json_put(line, key != NULL ? key : task->decided_key, task->decided(a, failed), failed);
    if (ft_task_has_classes(task)) ft_json_put(line, "probabilities", ft_answer_by_name(a, a->probability, failed), failed);
    else ft_json_put(line, "values", ft_answer_by_name(a, a->value, failed), failed);
}
