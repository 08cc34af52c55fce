// machine.h - what a machine does beside a run, sampled for a tracker in MLflow's names
// (system/cpu_utilization_percentage, ..): the newest few thousand samples that were not told yet.
#ifndef FT_TRACK_MACHINE_H
#define FT_TRACK_MACHINE_H

#include "engine/track/mlflow.h"

enum { FT_MACHINE_SAMPLES = 4096 };
typedef struct ft_machine {
    struct {
        int64_t time;               // milliseconds since 1970
        double busy, memory, share; // of all cores, percent; 10^6 bytes in use; percent
    } sample[FT_MACHINE_SAMPLES];
    int count;
    double looked;        // ft_now()
    uint64_t ticks, idle; // of /proc/stat then
} ft_machine;

void ft_machine_look(ft_machine *machine); // every ten seconds, however often it is called
// All samples, appended to batch->metrics; their step counts on from the record's `samples`. Then ft_machine_told.
ft_status ft_machine_take(const ft_machine *machine, const json_t *record, ft_mlflow_batch *batch);
ft_status ft_machine_told(ft_machine *machine, json_t *record);

#endif
