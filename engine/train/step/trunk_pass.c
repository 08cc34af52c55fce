#include "engine/train/step/trunk_pass.h"

#include "engine/train/job/features.h"
#include "engine/train/step/rehearsal.h"

#include <stdlib.h>
#include <string.h>

typedef struct part {
    char *rows;         // of the set
    const int32_t *row; // of each sequence; NULL: in order
    size_t bytes;       // of a row
} part;

static ft_status take(void *context, int64_t first, int64_t count, const void *rows) {
    const part *p = context;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = p->row != NULL ? p->row[first + i] : first + i;
        memcpy(p->rows + (size_t)at * p->bytes, (const char *)rows + (size_t)i * p->bytes, p->bytes);
    }
    return FT_OK;
}

static ft_status lay_out(ft_room *room) {
    ft_step_sizes sizes = ft_room_sizes(room);
    sizes.train = sizes.predict = (ft_capacity){.tokens = 0};
    sizes.trunk = room->plan.trunk;
    sizes.features = sizes.head_alone = false;
    ft_model_read_features(&room->model, false);
    return ft_lay_out_steps(room->memory, &room->job->model_config, room->config, room->job->labels.count, &sizes);
}

static void drop(ft_room *room) {
    ft_memory_drop_layout(room->memory);
    ft_memory_trim(room->memory);
}

static ft_status run_part(ft_room *room, ft_data_pass *p, const ft_feature_set *set, int k, void *home, ft_predict_progress progress, void *context) {
    const ft_dataset texts = ft_job_texts(room->job, set->split[k]);
    part to = {.rows = set->features.own, .row = set->row[k], .bytes = set->features.row_bytes};
    return ft_data_pass_run(p, &texts, ft_trunk_limits(room->config), home, take, &to, progress, context);
}

static ft_status run(ft_room *room, void *home, ft_predict_progress progress, void *context) {
    const ft_job_features *f = &room->job->features;
    ft_data_pass p;
    ft_status status = ft_data_pass_open(&room->model, room->plan.trunk, FT_PASS_ROWS, &p);
    for (int i = 0; i < f->sets; i++)
        for (int k = 0; status == FT_OK && f->set[i].features.data == NULL && k < f->set[i].parts; k++)
            status = run_part(room, &p, &f->set[i], k, home, progress, context);
    return ft_data_pass_close(&p, status);
}

ft_status ft_trunk_pass(ft_room *room, ft_predict_progress progress, void *context) {
    FT_TRY(lay_out(room));
    void *home = ft_calloc((size_t)room->plan.trunk.reads, ft_model_feature_bytes(&room->model), "rows that the head reads");
    ft_status status = home != NULL ? run(room, home, progress, context) : FT_NO_MEMORY;
    free(home);
    ft_error error;
    ft_error_save(&error);
    drop(room);
    if (status != FT_OK) ft_error_restore(&error);
    return status;
}

ft_status ft_trunk_pass_rehearse(ft_room *room) {
    if (!ft_job_lacks_features(room->job)) return FT_OK;
    FT_TRY(lay_out(room));
    const ft_status status = ft_data_pass_rehearse(&room->model, room->plan.trunk, FT_PASS_ROWS);
    ft_error error;
    ft_error_save(&error);
    drop(room);
    if (status != FT_OK) ft_error_restore(&error);
    return status;
}
