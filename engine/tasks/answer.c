#include "engine/tasks/answer.h"

json_t *ft_answer_by_name(const ft_answer *a, const double *values, bool *failed) {
    json_t *object = json_object();
    for (int k = 0; k < a->outputs; k++) ft_json_put(object, a->names[k], ft_json_rounded(values[k], 9), failed);
    return object;
}
