#include "engine/train/job/features.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/spill.h"
#include "engine/data/picture_set.h"
#include "engine/files/weights.h"
#include "engine/model/model.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_VERSION = 1 };

// ---- whether, and in which sets -------------------------------------------------------------------------------------------

static bool is_read(const ft_job *job, ft_split split) {
    return job->split[split].present && (split == FT_SPLIT_TRAIN || ft_job_evaluates(job, split));
}

static bool cut_from_one_file(const ft_job *job) { return job->split[FT_SPLIT_TRAIN].source_row != NULL; }

static void list_sets(ft_job *job) {
    ft_job_features *f = &job->features;
    for (int s = 0; s < FT_SPLITS; s++) {
        if (!is_read(job, (ft_split)s)) continue;
        const bool joins = s == FT_SPLIT_VALIDATION && cut_from_one_file(job);
        ft_feature_set *set = joins ? &f->set[0] : &f->set[f->sets++];
        set->split[set->parts++] = (ft_split)s;
        set->features.rows += job->split[s].data.sequences;
    }
}

// Where the rows of a part are in its set. A set of one part is in its order.
static ft_status number_rows(ft_job *job, ft_feature_set *set) {
    int64_t at[FT_MOST_FEATURE_PARTS] = {0}, sequence = 0;
    if (set->parts == 1) return FT_OK;
    for (int i = 0; i < set->parts; i++) {
        const size_t count = (size_t)job->split[set->split[i]].data.sequences;
        set->row[i] = ft_spill_calloc(count + 1, sizeof *set->row[i], "rows of features");
        if (set->row[i] == NULL) return FT_NO_MEMORY;
    }
    for (; sequence < set->features.rows; sequence++) {
        int first = -1;
        int64_t least = INT64_MAX;
        for (int i = 0; i < set->parts; i++) {
            const ft_split_data *d = &job->split[set->split[i]];
            if (at[i] == d->data.sequences) continue;
            const int64_t row = d->source_row[ft_dataset_example(&d->data, at[i])];
            if (row < least) first = i, least = row;
        }
        set->row[first][at[first]++] = (int32_t)sequence;
    }
    return FT_OK;
}

static size_t row_bytes(const ft_job *job) {
    static const ft_dtype types[] = {[FT_PRECISION_FP32] = FT_F32, [FT_PRECISION_BF16] = FT_BF16, [FT_PRECISION_FP16] = FT_F16, [FT_PRECISION_AUTO] = FT_F32};
    return (size_t)ft_model_config_read_width(&job->model_config) * ft_dtype_size(types[job->config->train.precision]);
}

static bool too_many(ft_job *job, uint64_t *bytes) {
    *bytes = 0;
    for (int i = 0; i < job->features.sets; i++) *bytes += ft_features_bytes(&job->features.set[i].features);
    return *bytes > (uint64_t)job->config->data.feature_cache_limit;
}

static ft_status choose_directory(ft_job *job) {
    const char *asked = job->config->data.feature_cache;
    const bool own = asked[0] != '\0' && strcmp(asked, "auto") != 0;
    return ft_cache_directory(own ? asked : job->config->data.cache_dir, &job->arena, &job->features.directory);
}

static ft_status plan_rows(ft_job *job) {
    ft_job_features *f = &job->features;
    uint64_t bytes;
    char all[24], limit[24];
    list_sets(job);
    for (int i = 0; i < f->sets; i++) f->set[i].features.row_bytes = row_bytes(job);
    if (too_many(job, &bytes)) {
        ft_info("features   of the texts would take %s, and data.feature_cache_limit is %s: every text is computed in every epoch",
                ft_bytes_text((size_t)bytes, all), ft_bytes_text((size_t)job->config->data.feature_cache_limit, limit));
        *f = (ft_job_features){.on = false};
        return FT_OK;
    }
    for (int i = 0; i < f->sets; i++) FT_TRY(number_rows(job, &f->set[i]));
    for (int i = 0; i < f->sets; i++)
        for (int k = 0; k < f->set[i].parts; k++) {
            ft_dataset *data = &job->split[f->set[i].split[k]].data;
            data->input = &ft_feature_input;
            data->feature_bytes = row_bytes(job);
            data->feature_row = f->set[i].row[k];
        }
    return FT_OK;
}

ft_status ft_job_plan_features(ft_job *job) {
    const ft_config *c = job->config;
    job->features = (ft_job_features){.on = false};
    if (ft_task_reads_rows(job->task) || job->model_config.late_pooling) return FT_OK; // almost every row of a text is read
    if (strcmp(c->data.feature_cache, "off") == 0 || !ft_model_trunk_is_fixed(c)) return FT_OK;
    if (ft_augment_changes(&job->augment) || ft_augment_mixes(&job->augment)) return FT_OK; // a picture is another one in every epoch
    FT_TRY(choose_directory(job));
    job->features.on = true;
    return job->without_data ? FT_OK : plan_rows(job);
}

// ---- keys -----------------------------------------------------------------------------------------------------------------

static void add_text(ft_sha256_state *hash, const char *text) {
    const uint64_t length = strlen(text); // in front: two texts could run together
    ft_sha256_add(hash, &length, sizeof length);
    ft_sha256_add(hash, text, (size_t)length);
}

// All that decides about a row beside the sequence.
static ft_status add_trunk(const ft_job *job, const ft_target *target, const char *tuning, ft_sha256_state *hash) {
    const ft_config *c = job->config;
    const bool drawn = c->model.init == FT_INIT_RANDOM, of_cpu = target->threads > 0;
    const ft_batch_limits limits = ft_trunk_limits(c);
    const int64_t type = c->train.precision | (int64_t)(c->train.residual == FT_RESIDUAL_16BIT) << 8;
    const int64_t facts[] = {KEY_VERSION, type, c->model.storage, (int64_t)row_bytes(job), drawn, drawn ? c->train.seed : 0,
                             of_cpu ? 0 : target->compute_capability, of_cpu ? 0 : target->sm_count,
                             of_cpu ? 0 : limits.max_sequences, of_cpu ? 0 : limits.max_tokens};
    char *config = json_dumps(job->model_config.json, JSON_COMPACT | JSON_SORT_KEYS);
    if (config == NULL) return ft_fail_memory(0, "config.json as text");
    ft_sha256_add(hash, facts, sizeof facts);
    add_text(hash, drawn ? "" : job->base_sha256);
    add_text(hash, config);
    add_text(hash, of_cpu ? "" : tuning);
    if (job->model_config.mean_head) add_text(hash, "mean");
    free(config);
    return FT_OK;
}

static void add_picture(ft_sha256_state *hash, const ft_dataset *data, int64_t example) {
    const ft_picture_set *set = data->pictures;
    const int64_t facts[] = {set->height, set->width};
    ft_sha256_add(hash, facts, sizeof facts);
    ft_sha256_add(hash, set->rules.value, sizeof set->rules.value);
    ft_sha256_add(hash, ft_picture_set_at(set, example), ft_picture_set_bytes(set));
}

static void add_sequence(ft_sha256_state *hash, const ft_dataset *data, int64_t sequence) {
    if (data->pictures != NULL) {
        add_picture(hash, data, ft_dataset_example(data, sequence));
        return;
    }
    const int64_t first = data->offset[sequence], tokens = ft_dataset_tokens(data, sequence);
    const int64_t facts[] = {tokens, data->types != NULL};
    ft_sha256_add(hash, facts, sizeof facts);
    ft_sha256_add(hash, data->ids + first, (size_t)tokens * sizeof *data->ids);
    if (data->types != NULL) ft_sha256_add(hash, data->types + first, (size_t)tokens);
}

// In the order of the rows.
static void add_sequences(const ft_job *job, const ft_feature_set *set, ft_sha256_state *hash) {
    int64_t at[FT_MOST_FEATURE_PARTS] = {0};
    for (int64_t row = 0; row < set->features.rows; row++)
        for (int i = 0; i < set->parts; i++) {
            const ft_dataset *data = &job->split[set->split[i]].data;
            if (at[i] == data->sequences || (set->row[i] != NULL && set->row[i][at[i]] != row)) continue;
            add_sequence(hash, data, at[i]++);
            break;
        }
}

static ft_status make_key(const ft_job *job, const ft_target *target, const char *tuning, ft_feature_set *set) {
    ft_sha256_state hash;
    unsigned char digest[32];
    ft_sha256_begin(&hash);
    const ft_status status = add_trunk(job, target, tuning, &hash);
    add_sequences(job, set, &hash);
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, set->features.key);
    return status;
}

// ---- rows -----------------------------------------------------------------------------------------------------------------

static void give(ft_job *job, const ft_feature_set *set) {
    for (int k = 0; k < set->parts; k++) job->split[set->split[k]].data.feature = set->features.data;
}

ft_status ft_job_find_features(ft_job *job, const ft_target *target, const char *tuning) {
    ft_job_features *f = &job->features;
    bool exist = true;
    if (!f->on || job->without_data || f->directory == NULL) return FT_OK;
    if (job->config->model.storage == FT_KEEP_AUTO) return FT_OK; // what the trunk is kept in is not known before the run is planned
    f->compute_capability = target->compute_capability;
    f->sm_count = target->sm_count;
    if (job->config->model.init != FT_INIT_RANDOM && job->base_sha256[0] == '\0') {
        FT_TRY(ft_weights_exist(job->model_dir, &exist));
        if (!exist) return FT_OK;
        FT_TRY(ft_weights_digest(job->model_dir, job->base_sha256));
    }
    int64_t found_rows = 0;
    for (int i = 0; i < f->sets; i++) {
        ft_feature_set *set = &f->set[i];
        bool found;
        FT_TRY(make_key(job, target, tuning, set));
        FT_TRY(ft_features_load(f->directory, &set->features, &found));
        if (!found) continue;
        found_rows += set->features.rows;
        give(job, set);
    }
    f->from_cache = !ft_job_lacks_features(job);
    if (found_rows > 0) ft_info("features   of %lld texts from %s", (long long)found_rows, f->directory);
    return FT_OK;
}

void ft_job_take_features(ft_job *job, const ft_target *target, bool fitted) {
    ft_job_features *f = &job->features;
    const bool of_cpu = target->threads > 0, as_found = f->compute_capability == target->compute_capability && f->sm_count == target->sm_count;
    const bool keeps = f->directory != NULL && as_found && (of_cpu || !fitted);
    for (int i = 0; i < f->sets; i++) {
        ft_feature_set *set = &f->set[i];
        if (set->features.data != NULL) continue;
        set->features.data = set->features.own;
        ft_spill_settle(set->features.own);
        give(job, set);
        if (keeps && set->features.key[0] != '\0')
            ft_features_store(f->directory, job->config->data.feature_cache_limit, &set->features);
    }
}

void ft_job_close_features(ft_job *job) {
    ft_job_features *f = &job->features;
    for (int i = 0; i < f->sets; i++) {
        ft_features_free(&f->set[i].features);
        for (int k = 0; k < FT_MOST_FEATURE_PARTS; k++) ft_spill_free(f->set[i].row[k]);
    }
    *f = (ft_job_features){.on = false};
}

// ---- for who plans --------------------------------------------------------------------------------------------------------

bool ft_job_lacks_features(const ft_job *job) {
    const ft_job_features *f = &job->features;
    bool lacks = f->on && job->without_data;
    for (int i = 0; i < f->sets; i++) lacks |= f->set[i].features.data == NULL;
    return lacks;
}

int ft_job_longest(const ft_job *job) { return job->features.on ? 1 : job->max_length; }

ft_dataset ft_job_texts(const ft_job *job, ft_split split) {
    ft_dataset data = job->split[split].data;
    data.input = job->input.kind;
    data.feature = NULL;
    data.feature_row = NULL;
    data.feature_bytes = 0;
    return data;
}

ft_batch_limits ft_trunk_limits(const ft_config *c) {
    return (ft_batch_limits){.max_sequences = c->train.micro_batch == FT_AUTO ? c->train.batch_size : c->train.micro_batch,
                             .max_tokens = c->train.micro_batch_tokens == FT_AUTO ? 0 : c->train.micro_batch_tokens};
}

ft_feature_bytes ft_job_feature_bytes(const ft_job *job) {
    ft_feature_bytes bytes = {0};
    const ft_job_features *f = &job->features;
    for (int i = 0; i < f->sets; i++) {
        const ft_features *one = &f->set[i].features;
        if (one->data != NULL || one->own != NULL) continue;
        const size_t rows = (size_t)one->rows * one->row_bytes;
        bytes.all += rows;
        if (rows <= FT_SPILL_FROM) bytes.held += rows;
    }
    return bytes;
}
