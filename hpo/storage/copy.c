// copy.c - a study from one kind of database to another, trial by trial: what is known of it, and nothing that one of
// them alone has.
#include "hpo/storage/internal.h"

#include <stdio.h>
#include <stdlib.h>

static ft_status copy_attributes(ft_stored *to, ft_stored *from, int64_t number) {
    for (int kind = FT_USER_ATTRIBUTE; kind <= FT_SYSTEM_ATTRIBUTE; kind++) {
        ft_arena arena = {0};
        ft_attribute *list;
        int count;
        ft_status status = ft_stored_attributes(from, number, (ft_attribute_kind)kind, &arena, &list, &count);
        for (int i = 0; status == FT_OK && i < count; i++)
            status = ft_stored_set_attribute(to, number, (ft_attribute_kind)kind, list[i].key, list[i].json);
        ft_arena_free(&arena);
        FT_TRY(status);
    }
    return FT_OK;
}

static ft_status copy_times(ft_stored *to, ft_stored *from, int64_t number) {
    FT_TRY(ft_sql_bind(from->storage, FT_SQL_TRIAL, "i", from->trial_ids[number]));
    bool row;
    FT_TRY(ft_sql_step(from->storage, FT_SQL_TRIAL, &row));
    ft_status status = FT_OK;
    if (row)
        status = ft_sql_run(to->storage, FT_SQL_TRIAL_TIMES_SET, NULL, "itt", to->trial_ids[number],
                            ft_sql_text(from->storage, FT_SQL_TRIAL, 1), ft_sql_text(from->storage, FT_SQL_TRIAL, 2));
    ft_sql_reset(from->storage, FT_SQL_TRIAL);
    return status;
}

static ft_status copy_trial(ft_stored *to, ft_stored *from, int64_t i) {
    const ft_trial *t = &from->trials.trial[i];
    int64_t number;
    FT_TRY(ft_stored_ask(to, t->state == FT_WAITING ? FT_WAITING : FT_RUNNING, &number));
    for (int k = 0; k < t->param_count; k++)
        FT_TRY(ft_stored_param(to, number, from->trials.names.name[t->params[k].name],
                               from->trials.distributions[t->params[k].distribution], t->params[k].value));
    const bool lost =
        t->state == FT_PRUNED && from->trials.objectives > 1; // ft_stored_finish() would remove them, where it can
    for (int k = 0; k < t->report_count && !lost; k++)
        FT_TRY(ft_stored_report(to, number, t->reports[k].step, t->reports[k].value));
    FT_TRY(copy_attributes(to, from, i)); // constraints, rungs and what is fixed are among them
    if (ft_trial_finished(t->state)) FT_TRY(ft_stored_finish(to, number, t->state, t->values, t->value_count));
    return copy_times(to, from, i);
}

static ft_status copy_study(ft_storage *to, ft_stored *from, const char *new_name) {
    ft_stored *study;
    FT_TRY(ft_stored_create(to, new_name, from->trials.objectives, from->trials.maximize, &study));
    ft_status status = copy_attributes(study, from, FT_STUDY_ATTRIBUTE);
    for (int64_t i = 0; status == FT_OK && i < from->trials.count; i++)
        status = copy_trial(study, from, i);
    ft_stored_close(study);
    return status;
}

ft_status ft_storage_copy_rows(ft_storage *to, ft_storage *from, const char *name, const char *new_name) {
    ft_stored *source;
    FT_TRY(ft_stored_open(from, name, &source));
    ft_status status = ft_storage_begin(to);
    if (status == FT_OK) {
        status = copy_study(to, source, new_name);
        if (status == FT_OK) status = ft_storage_commit(to);
        if (status != FT_OK) ft_storage_rollback(to);
    }
    ft_stored_close(source);
    return status;
}
