#include "engine/train/fit/host_plan.h"

#include "base/heap.h"
#include "engine/memory/process.h"
#include "engine/train/job/data_report.h"
#include "engine/train/job/features.h"
#include "engine/train/step/predict.h"
#include "engine/train/step/step.h"
#include "kernels/devices/devices.h"

#include <unistd.h>

// A thread touches two pages of its stack, and the kernel has its own; beside that the program's own bookkeeping there.
enum { STACK_TOUCHED = 12 << 10, KERNEL_OF_THREAD = 34 << 10, KERNEL_OF_PROCESS = 512 << 10, BYTES_OF_TABLES = 512, MODEL_HEADER = 64 << 10, RANGE_ALIGNMENT = 2 << 20 };

// Of what the heap kept, as much may lie in pieces that are too small for what comes.
enum { HEAP_PIECES = 256 << 10 };

static size_t less(size_t a, size_t b) { return a > b ? a - b : 0; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// The largest evaluation; while its logits are there the best model is saved, whose files name every class. So does run.json, at the end.
static size_t evaluation_bytes(const ft_room *room) {
    const ft_job *job = room->job;
    const size_t saving = ft_model_config_save_bytes(job->labels.count);
    size_t most = larger(saving, ft_data_report_json_bytes(job));
    for (int s = FT_SPLIT_VALIDATION; s < FT_SPLITS; s++) {
        if (!ft_job_evaluates(job, (ft_split)s)) continue;
        const size_t judging = ft_evaluation_host_bytes(job->task, &job->split[s].data, job->labels.count, room->eval_capacity);
        const size_t writing = ft_logits_host_bytes(job->split[s].data.examples, job->labels.count) + saving;
        if (judging > most) most = judging;
        if (writing > most) most = writing;
    }
    return most;
}

// The model, its checkpoint, and of every example of an evaluation a line of predictions and logits.
static size_t files_bytes(const ft_room *room) {
    const ft_job *job = room->job;
    double numbers = 4 * (double)room->model.parameters.real_total;
    for (int s = FT_SPLIT_VALIDATION; s < FT_SPLITS; s++)
        if (ft_job_evaluates(job, (ft_split)s)) numbers += 6 * (double)job->split[s].data.examples * (double)job->labels.count;
    const double bytes = numbers * sizeof(float);
    return bytes < FT_FILES_MOST ? (size_t)bytes : FT_FILES_MOST;
}

void ft_host_sum(const ft_host_sources *s, ft_host_memory *out) {
    const ft_job_held *held = &s->held;
    ft_heap_trim(); // of what was freed since the texts were tokens
    const ft_process_addresses now = ft_process_addresses_now();
    const size_t texts = s->texts, device = s->device, here = ft_process_held(getpid()), later = (size_t)s->later_threads;
    *out = (ft_host_memory){.loading = device > 0 ? ft_heap_watch_most() : 0, .mapped = s->mapped, .mapped_weights = s->mapped_weights};
    size_t *part = out->part;
    part[FT_PART_PROGRAM] = s->lent ? 0 : held->start; // the trunk has it, and others
    part[FT_PART_TOKENIZER] = less(held->tokenizer, held->start);
    part[FT_PART_DATA] = less(less(held->data, held->tokenizer), texts) + s->features;
    part[FT_PART_BOOKKEEPING] = less(here, held->data) + s->trace;
    part[FT_PART_DEVICE] = s->of_host ? device : 0;
    part[FT_PART_PINNED] = s->planned->peak_pinned;
    part[FT_PART_EVALUATION] = s->evaluation;
    part[FT_PART_THREADS] = later * STACK_TOUCHED;
    const size_t sum = ft_host_held(out);
    part[FT_PART_KERNEL] = KERNEL_OF_PROCESS + (size_t)s->threads * KERNEL_OF_THREAD + sum / BYTES_OF_TABLES;
    part[FT_PART_FILES] = s->files;
    part[FT_PART_SLACK] = FT_HOST_SLACK_BYTES;
    out->peak = larger(sum, out->loading) + part[FT_PART_FILES] + part[FT_PART_KERNEL] + part[FT_PART_SLACK];

    // While texts are there nothing of the device is, and the other way round. What comes from the heap takes no addresses as far as the
    // heap kept some, of the run before maybe.
    const size_t later_on = less(less(sum, later * STACK_TOUCHED), less(here, texts)), earlier = device > 0 ? less(out->loading, here) + texts : 0;
    const size_t kept = less(ft_heap_free_bytes(), HEAP_PIECES), later_heap = less(later_on, part[FT_PART_DEVICE] + part[FT_PART_PINNED]);
    const size_t grows = larger(later_on - smaller(kept, later_heap), less(earlier, kept)) + part[FT_PART_SLACK] + later * ft_cpu_stack_bytes();
    out->data = less(now.data, texts) + grows;
    out->addresses = less(now.all, texts) + grows + out->mapped;
    if (device > 0 && s->of_host) out->addresses += less(s->planned->peak_extent[0] + s->planned->peak_extent[1], device) + RANGE_ALIGNMENT;
}

void ft_host_add_planning(ft_host_memory *others) {
    enum { PLANNING = 512 << 10 };
    others->part[FT_PART_BOOKKEEPING] += PLANNING;
    others->peak += PLANNING;
    others->addresses += PLANNING;
    others->data += PLANNING;
}

void ft_host_plan(const ft_room *room, const ft_memory_counters *planned, size_t device, int later_threads, ft_host_memory *out) {
    const bool of_host = !ft_device_queues(room->device);
    const ft_feature_bytes features = ft_job_feature_bytes(room->job);
    ft_picture_feed_request feed;
    const bool feeds = ft_step_feeds(room, &feed);
    later_threads += feeds ? feed.workers : 0;
    ft_host_sources sources = {.held = room->job->held,
                               .texts = ft_job_texts_bytes(room->job),
                               .device = device,
                               .planned = planned,
                               .features = features.held + (feeds ? ft_picture_feed_heap_bytes(&feed) : 0),
                               .trace = room->config->memory.timeline ? ft_memory_trace_bytes() : 0,
                               .evaluation = evaluation_bytes(room),
                               .files = files_bytes(room),
                               .mapped = (room->head_alone ? 2 : 1) * room->job->weights_bytes + features.all - features.held, // frozen layers stay in their files
                               .mapped_weights = room->model.parameters.mapped_bytes,
                               .threads = (of_host ? room->device->target.threads : 1) + (feeds ? feed.workers : 0),
                               .later_threads = later_threads,
                               .of_host = of_host,
                               .lent = room->trunk != NULL};
    if (ft_job_evaluates(room->job, FT_SPLIT_TEST)) // the best model is read again
        sources.mapped += (size_t)room->model.parameters.real_total * sizeof(float) + MODEL_HEADER;
    ft_host_sum(&sources, out);
}
