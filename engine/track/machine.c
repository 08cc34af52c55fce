#include "engine/track/machine.h"

#include "base/clock.h"
#include "base/json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const double EVERY = 10; // seconds, as MLflow's own

static bool read_ticks(uint64_t *all, uint64_t *idle) {
    FILE *file = fopen("/proc/stat", "re");
    uint64_t t[8] = {0};
    const int got = file != NULL ? fscanf(file,
                                          "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                                          " %" SCNu64 " %" SCNu64,
                                          &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7])
                                 : 0;
    if (file != NULL) fclose(file);
    *all = 0;
    for (int i = 0; i < 8; i++)
        *all += t[i];
    *idle = t[3] + t[4]; // also while it waits for a disk
    return got >= 4;
}

static bool read_memory(double *total, double *available) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[200];
    bool found[2] = {false};
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        found[0] = sscanf(line, "MemTotal: %lf", total) == 1 || found[0];
        found[1] = sscanf(line, "MemAvailable: %lf", available) == 1 || found[1];
    }
    if (file != NULL) fclose(file);
    return found[0] && found[1];
}

void ft_machine_look(ft_machine *m) {
    const double now = ft_now();
    uint64_t all, idle;
    double total, available;
    if (m->looked > 0 && now - m->looked < EVERY) return;
    if (!read_ticks(&all, &idle) || !read_memory(&total, &available)) return;
    if (m->looked > 0 && all > m->ticks) { // the first look is where the next counts from
        struct timespec time;
        clock_gettime(CLOCK_REALTIME, &time);
        if (m->count == FT_MACHINE_SAMPLES) memmove(m->sample, m->sample + 1, (size_t)--m->count * sizeof m->sample[0]);
        const uint64_t slept = idle > m->idle ? idle - m->idle : 0;
        m->sample[m->count].time = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
        m->sample[m->count].busy = 100.0 * (1 - (double)slept / (double)(all - m->ticks));
        m->sample[m->count].memory = (total - available) * 1024 / 1e6;
        m->sample[m->count++].share = 100.0 * (total - available) / total;
    }
    m->ticks = all;
    m->idle = idle;
    m->looked = now;
}

static int64_t told(const json_t *record) { return json_integer_value(json_object_get(record, "samples")); }

ft_status ft_machine_take(const ft_machine *m, const json_t *record, ft_mlflow_batch *batch) {
    bool failed = false;
    for (int i = 0; i < m->count; i++) {
        const int64_t step = told(record) + i, time = m->sample[i].time;
        ft_mlflow_metric(batch, "system/cpu_utilization_percentage", m->sample[i].busy, step, time, &failed);
        ft_mlflow_metric(batch, "system/system_memory_usage_megabytes", m->sample[i].memory, step, time, &failed);
        ft_mlflow_metric(batch, "system/system_memory_usage_percentage", m->sample[i].share, step, time, &failed);
    }
    return failed ? ft_fail_memory(0, "a request") : FT_OK;
}

ft_status ft_machine_told(ft_machine *m, json_t *record) {
    bool failed = false;
    ft_json_put(record, "samples", json_integer((json_int_t)(told(record) + m->count)), &failed);
    m->count = 0;
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}
