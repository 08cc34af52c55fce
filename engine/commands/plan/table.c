// table.c - `ftengine plan --table`: the largest micro-batch for every length, with and without recomputation, in
// every precision.
#include "engine/commands/plan/command.h"
#include "engine/commands/plan/picture.h"

#include "base/json/json.h"
#include "engine/config/options.h"
#include "engine/hub/cache.h"
#include "engine/plan/search.h"

#include <math.h>
#include <string.h>

static const int usual_lengths[] = {32, 64, 96, 128, 192, 256, 384, 512};
enum { USUAL = sizeof usual_lengths / sizeof usual_lengths[0], COLUMNS = 16, MOST_SEQUENCES = 1 << 20 };

typedef struct column {
    const char *precision;
    int precision_value;
    bool recompute;
} column;

typedef struct table {
    const ft_plan_task *task;
    ft_config config; // of the task, without data; strings belong to the task's
    size_t budget;
    bool not_supported; // the card: there are no rows
    int lengths[USUAL + 1], length_count;
    column columns[COLUMNS];
    int column_count;
    int64_t cell[USUAL + 1][COLUMNS];
} table;

static const char *on_off(bool on) { return on ? "on" : "off"; }

static ft_status load_model_config(const char *path, ft_model_config *model) {
    ft_arena arena = {0};
    const char *found = NULL;
    ft_status status = ft_hub_find(path, &arena, &found);
    if (status == FT_OK) status = ft_model_config_load(found != NULL ? found : path, model);
    ft_arena_free(&arena);
    return status;
}

// The usual lengths that the model has positions for, and its own where it ends between two of them.
static ft_status choose_lengths(table *t) {
    ft_model_config model;
    if (t->config.model.path[0] == '\0') return ft_fail(FT_INVALID, "model.path", "no model given");
    FT_TRY(load_model_config(t->config.model.path, &model));
    int positions = (int)model.max_position_embeddings;
    ft_model_config_free(&model);
    for (int i = 0; i < USUAL && usual_lengths[i] <= positions; i++)
        t->lengths[t->length_count++] = usual_lengths[i];
    bool ends_between =
        positions < usual_lengths[USUAL - 1] && (t->length_count == 0 || t->lengths[t->length_count - 1] < positions);
    if (ends_between) t->lengths[t->length_count++] = positions;
    return FT_OK;
}

static void choose_columns(table *t) {
    const ft_option_choice *choice = ft_option_at(ft_option_find("train.precision"))->choices;
    for (; choice->name != NULL && t->column_count + 2 <= COLUMNS; choice++) {
        bool known = choice->value > FT_PRECISION_FP16; // what is not a type of numbers that are trained in; several names may stand for one value
        for (int i = 0; i < t->column_count; i++)
            known |= t->columns[i].precision_value == choice->value;
        for (int on = 0; on < 2 && !known; on++)
            t->columns[t->column_count++] = (column){choice->name, choice->value, on == 1};
    }
}

static ft_status fill(table *t, const ft_plan_request *request) {
    for (int i = 0; i < t->length_count; i++) {
        int64_t most = MOST_SEQUENCES, bound = INT32_MAX / t->lengths[i];
        most = (most < bound ? most : bound) / ft_plan_eval_multiplier(&t->config);
        t->config.data.max_length = t->lengths[i];
        for (int k = 0; k < t->column_count; k++) {
            t->config.train.precision = (ft_precision)t->columns[k].precision_value;
            t->config.train.gradient_checkpointing = t->columns[k].recompute ? 1 : 0;
            FT_TRY(ft_plan_largest(&t->config, request, FT_VARY_BATCH, most, &t->cell[i][k]));
        }
    }
    return FT_OK;
}

static void print_text(const table *t, const ft_plan *plan) {
    char budget[160];
    ft_plan_budget_text(t->task, &t->config, t->budget, budget, sizeof budget);
    printf("largest micro-batch, in sequences: %s in %s\n\nprecision", ft_plan_model_name(&t->config), budget);
    for (int k = 0; k < t->column_count; k++)
        printf(" %9s", t->columns[k].precision);
    printf("\nrecompute");
    for (int k = 0; k < t->column_count; k++)
        printf(" %9s", on_off(t->columns[k].recompute));
    printf("\n");
    for (int i = 0; i < t->length_count; i++) {
        printf("%9d", t->lengths[i]);
        for (int k = 0; k < t->column_count; k++)
            printf(" %9lld", (long long)t->cell[i][k]);
        printf("\n");
    }
    printf("\nAll texts have the length of their row; recompute is train.gradient_checkpointing. Evaluation is "
           "included.\n");
    if (t->config.memory.recompute_layernorm == FT_RECOMPUTE_AUTO)
        printf("In fp32 outputs of norms are made again, as memory.recompute_layernorm=auto does when memory is short.\n");
    ft_plan_print_notes(plan, "");
}

static void print_csv(const table *t) {
    printf("length,precision,gradient_checkpointing,micro_batch\n");
    for (int i = 0; i < t->length_count; i++)
        for (int k = 0; k < t->column_count; k++)
            printf("%d,%s,%s,%lld\n", t->lengths[i], t->columns[k].precision, on_off(t->columns[k].recompute),
                   (long long)t->cell[i][k]);
}

static ft_status print_json(const table *t) {
    bool failed = false;
    json_t *rows = json_array();
    for (int i = 0; i < t->length_count && !t->not_supported; i++)
        for (int k = 0; k < t->column_count; k++)
            ft_json_append(rows,
                           json_pack("{s:i, s:s, s:s, s:I}", "length", t->lengths[i], "precision",
                                     t->columns[k].precision, "gradient_checkpointing", on_off(t->columns[k].recompute),
                                     "micro_batch", (json_int_t)t->cell[i][k]),
                           &failed);
    json_t *root = json_pack("{s:i, s:o, s:I}", "format_version", 1, "model",
                             ft_json_text(ft_plan_model_name(&t->config)), "budget_bytes", (json_int_t)t->budget);
    if (t->not_supported) ft_json_put(root, "verdict", json_string("not_supported"), &failed);
    if (t->task->card != NULL) ft_json_put(root, "gpu", ft_plan_card_json(t->task), &failed);
    ft_json_put(root, "rows", rows, &failed);
    return ft_plan_write_json(root, failed);
}

static ft_status draw(const table *t) {
    char title[160], budget[160], subtitle[180], lengths[USUAL + 1][16], names[COLUMNS][48];
    const char *labels[USUAL + 1];
    double y[COLUMNS][USUAL + 1];
    ft_plan_picture_line lines[COLUMNS];
    snprintf(title, sizeof title, "Largest micro-batch that fits: %s", ft_plan_model_name(&t->config));
    ft_plan_budget_text(t->task, &t->config, t->budget, budget, sizeof budget);
    snprintf(subtitle, sizeof subtitle, "budget %s", budget);
    for (int i = 0; i < t->length_count; i++) {
        snprintf(lengths[i], sizeof lengths[i], "%d", t->lengths[i]);
        labels[i] = lengths[i];
    }
    for (int k = 0; k < t->column_count; k++) {
        snprintf(names[k], sizeof names[k], "%s, %s", t->columns[k].precision,
                 t->columns[k].recompute ? "recompute" : "no recompute");
        for (int i = 0; i < t->length_count; i++)
            y[k][i] = (double)t->cell[i][k];
        lines[k] = (ft_plan_picture_line){.name = names[k], .y = y[k]};
    }
    return ft_plan_picture_write(&(ft_plan_picture){.title = title,
                                          .subtitle = subtitle,
                                          .x_name = "tokens of every text",
                                          .y_name = "sequences at once",
                                          .x_count = t->length_count,
                                          .x_labels = labels,
                                          .line_count = t->column_count,
                                          .lines = lines,
                                          .logarithmic = true,
                                          .level = NAN,
                                          .note = "recompute is train.gradient_checkpointing; evaluation is included"},
                            t->task->svg);
}

ft_status ft_plan_table(const ft_plan_task *task) {
    table t = {.task = task, .config = task->config};
    t.config.data.train = t.config.data.validation = t.config.data.test = "";
    FT_TRY(choose_lengths(&t));
    choose_columns(&t);
    ft_plan_request request = ft_plan_request_of(task);
    ft_plan plan; // says what memory.limit comes to here
    t.config.data.max_length = t.lengths[0];
    FT_TRY(ft_plan_run(&t.config, &request, &plan));
    t.budget = plan.budget_bytes;
    t.not_supported = plan.not_supported;
    if (plan.not_supported) {
        if (task->format == FT_PLAN_JSON) FT_TRY(print_json(&t));
        return ft_plan_refuse_card(task, &plan);
    }
    FT_TRY(fill(&t, &request));
    if (task->format == FT_PLAN_JSON)
        FT_TRY(print_json(&t));
    else if (task->format == FT_PLAN_CSV)
        print_csv(&t);
    else
        print_text(&t, &plan);
    if (task->svg != NULL) FT_TRY(draw(&t));
    int64_t largest = 0;
    for (int k = 0; k < t.column_count; k++)
        largest = t.cell[0][k] > largest ? t.cell[0][k] : largest;
    if (largest > 0) return FT_OK;
    t.config.data.max_length = t.lengths[0];
    t.config.train.batch_size = t.config.train.micro_batch = 1;
    t.config.train.micro_batch_tokens = FT_AUTO;
    FT_TRY(ft_plan_run(&t.config, &request, &plan)); // of the last column, which needs least of the device
    if (plan.host_short) return ft_plan_refuse_host(&plan);
    if (plan.process_short) return ft_host_refuse(&plan.process_verdict);
    ft_fail(FT_NO_MEMORY, NULL, "does not fit: not even one sequence of %d tokens", t.lengths[0]);
    ft_hint("weights, gradients and moments alone need more; a smaller model, or more memory");
    return FT_NO_MEMORY;
}
