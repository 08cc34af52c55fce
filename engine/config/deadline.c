#include "engine/config/deadline.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Digits, a point maybe, and one letter.
static bool read_duration(const char *text, double *seconds) {
    static const char units[] = "smhd";
    static const double worth[] = {1, 60, 3600, 86400};
    const size_t digits = strspn(text, "0123456789.");
    const char *unit =
        digits > 0 && text[digits] != '\0' && text[digits + 1] == '\0' ? strchr(units, text[digits]) : NULL;
    char *end;
    if (unit == NULL) return false;
    *seconds = strtod(text, &end) * worth[unit - units];
    return end == text + digits && isfinite(*seconds);
}

static bool whole(const char *text, struct tm *out, const char *format) {
    const char *end = strptime(text, format, out);
    return end != NULL && *end == '\0';
}

static double until(struct tm *when, const struct timespec *now) {
    when->tm_isdst = -1;
    return (double)(mktime(when) - now->tv_sec) - (double)now->tv_nsec * 1e-9;
}

ft_status ft_deadline_left(const char *text, const char *where, double *left) {
    static const char *const dates[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"};
    static const char *const times[] = {"%H:%M:%S", "%H:%M"};
    struct timespec now;
    if (read_duration(text, left)) return FT_OK;
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        struct tm when = {.tm_mday = 1};
        if (!whole(text, &when, dates[i])) continue;
        *left = until(&when, &now);
        return FT_OK;
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct tm when;
        localtime_r(&now.tv_sec, &when);
        when.tm_sec = 0;
        if (!whole(text, &when, times[i])) continue;
        *left = until(&when, &now);
        when.tm_mday++; // today it is past
        if (*left <= 0) *left = until(&when, &now);
        return FT_OK;
    }
    ft_fail(FT_INVALID, where, "this is no deadline: '%.60s'", text);
    ft_hint("how long from now, as 90s, 10m, 2h or 1d; or until when, as 18:30 or 2026-11-26T18:30");
    return FT_INVALID;
}
