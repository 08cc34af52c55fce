#include "engine/tasks/tasks.h"

#include "engine/tasks/rows.h"

#include <stdlib.h>
#include <string.h>

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

static ft_status write_numbers(const ft_answer *a, const char *key, const double *values, FILE *out) {
    fprintf(out, ",\"%s\":", key);
    return ft_answer_write_by_name(a, values, out);
}

ft_status ft_task_write_line(const ft_task_spec *task, const ft_answer *a, const char *key, bool logits, json_t *head, FILE *out) {
    const bool classes = ft_task_has_classes(task);
    bool failed = head == NULL;
    if (task->decided != NULL) ft_json_put(head, key != NULL ? key : task->decided_key, task->decided(a, &failed), &failed);
    char *text = failed ? NULL : ft_json_line(head);
    json_decref(head);
    if (text == NULL) return ft_fail_memory(0, "a line of predictions");
    fwrite(text, 1, strlen(text) - 1, out); // but its brace
    free(text);
    FT_TRY(write_numbers(a, classes ? "probabilities" : "values", classes ? a->probability : a->value, out));
    if (logits && classes) FT_TRY(write_numbers(a, "logits", a->value, out));
    fputs("}\n", out);
    return FT_OK;
}
