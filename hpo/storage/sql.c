// sql.c - statements of whatever database it is, and the words in it.
#include "hpo/storage/internal.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

ft_status ft_sql_bind(ft_storage *storage, ft_sql id, const char *types, ...) {
    va_list arguments;
    va_start(arguments, types);
    ft_status status = storage->is->bind(storage, id, types, arguments);
    va_end(arguments);
    return status;
}

ft_status ft_sql_run(ft_storage *storage, ft_sql id, int *changed, const char *types, ...) {
    va_list arguments;
    va_start(arguments, types);
    ft_status status = storage->is->run(storage, id, changed, types, arguments);
    va_end(arguments);
    return status;
}

ft_status ft_sql_step(ft_storage *storage, ft_sql id, bool *row) { return storage->is->step(storage, id, row); }

void ft_sql_reset(ft_storage *storage, ft_sql id) { storage->is->reset(storage, id); }

int64_t ft_sql_last_id(ft_storage *storage) { return storage->is->last_id(storage); }

// ---- columns --------------------------------------------------------------------------------------------------------

const char *ft_sql_text(ft_storage *storage, ft_sql id, int column) {
    size_t length = 0;
    const char *text = storage->is->text(storage, id, column, &length);
    // JSON and messages could not hold it; SQLite keeps whatever bytes it was given.
    return text != NULL && strlen(text) == length && ft_utf8_valid_prefix(text, length) == length ? text : NULL;
}

bool ft_sql_int(ft_storage *storage, ft_sql id, int column, int64_t *out) {
    return storage->is->integer(storage, id, column, out);
}

bool ft_sql_double(ft_storage *storage, ft_sql id, int column, double *out) {
    return storage->is->number(storage, id, column, out);
}

bool ft_sql_typed(ft_storage *storage, ft_sql id, int column, double *out) {
    static const struct {
        const char *name;
        double value;
    } types[] = {{"INF_POS", INFINITY}, {"INF_NEG", -INFINITY}, {"NAN", NAN}};
    const char *type = ft_sql_text(storage, id, column + 1);
    if (type == NULL) return false;
    if (strcmp(type, "FINITE") == 0) return ft_sql_double(storage, id, column, out) && isfinite(*out);
    for (int i = 0; i < 3; i++)
        if (strcmp(type, types[i].name) == 0) {
            *out = types[i].value;
            return true;
        }
    return false;
}

const char *ft_sql_type_name(double value) {
    return isnan(value) ? "NAN" : isfinite(value) ? "FINITE" : value > 0 ? "INF_POS" : "INF_NEG";
}

// ---- words ----------------------------------------------------------------------------------------------------------

void ft_sql_now(char text[32]) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(text + n, 32 - n, ".%06ld", now.tv_nsec / 1000);
}

int64_t ft_sql_time(const char *text) {
    struct tm parts = {0};
    int used = 0;
    if (text == NULL) return -1;
    int fields = sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                        &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &used);
    if (fields != 6) return -1;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    int64_t micro = 0, unit = 100000;
    if (text[used] == '.')
        for (const char *c = text + used + 1; *c >= '0' && *c <= '9'; c++, unit /= 10)
            micro += unit * (*c - '0');
    return (int64_t)timegm(&parts) * 1000000 + micro;
}

ft_status ft_state_of(const char *name, ft_trial_state *state) {
    for (int i = FT_RUNNING; name != NULL && i <= FT_WAITING; i++)
        if (strcmp(name, ft_trial_state_name((ft_trial_state)i)) == 0) {
            *state = (ft_trial_state)i;
            return FT_OK;
        }
    return ft_fail(FT_INVALID, NULL, "a trial has an unknown state");
}
