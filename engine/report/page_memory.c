// page_memory.c - memory on the page of a run: its course by category when a timeline was kept (a chart of its
// own), the peak and the phases.
#include "engine/report/page.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/memory/memory.h"
#include "engine/report/chart.h"
#include "engine/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 10 };

typedef struct course {
    int64_t count, capacity;
    double *seconds, *bytes[FT_MEM_CATEGORIES];
    double now[FT_MEM_CATEGORIES];
    double covered, blank_from, blank_to; // phases cover the time but for the stretch that was left out
    int64_t process;                      // of the trace: a device
    double moved;                         // when the run came to the last one; NaN: it has had one
} course;

static int category_named(const char *name) {
    for (int c = 0; c < FT_MEM_CATEGORIES; c++)
        if (strcmp(name, ft_memory_category_name((ft_memory_category)c)) == 0) return c;
    return -1;
}

static ft_status grow(course *t) {
    int64_t capacity = t->capacity > 0 ? 2 * t->capacity : 1024;
    double **all[FT_MEM_CATEGORIES + 1] = {&t->seconds};
    for (int c = 0; c < FT_MEM_CATEGORIES; c++)
        all[c + 1] = &t->bytes[c];
    for (int k = 0; k <= FT_MEM_CATEGORIES; k++) {
        double *grown = ft_realloc(*all[k], (size_t)capacity, sizeof *grown, "the course of memory");
        if (grown == NULL) return FT_NO_MEMORY;
        *all[k] = grown;
    }
    t->capacity = capacity;
    return FT_OK;
}

// Counters that change at one moment are one moment of the picture.
static ft_status take_counter(course *t, int category, double seconds, double bytes) {
    if (t->count > 0 && seconds < t->seconds[t->count - 1]) return FT_OK; // no clock runs backwards; a damaged file may
    t->now[category] = bytes > 0 ? bytes : 0;
    if (t->count == 0 || t->seconds[t->count - 1] != seconds) {
        if (t->count == t->capacity) FT_TRY(grow(t));
        t->seconds[t->count++] = seconds;
    }
    for (int c = 0; c < FT_MEM_CATEGORIES; c++)
        t->bytes[c][t->count - 1] = t->now[c];
    return FT_OK;
}

static void take_phase(course *t, double from, double to) {
    if (t->covered > 0 && from - t->covered > t->blank_to - t->blank_from) {
        t->blank_from = t->covered;
        t->blank_to = from;
    }
    t->covered = fmax(t->covered, to);
}

// Another process of the trace is another device: the run has left the one before.
static void take_process(course *t, int64_t process, double seconds) {
    if (t->process != 0 && process != t->process) t->moved = seconds;
    t->process = process;
}

static ft_status take_event(course *t, const json_t *event) {
    const char *name = json_string_value(json_object_get(event, "name")), *kind = json_string_value(json_object_get(event, "ph"));
    const json_t *time = json_object_get(event, "ts"), *bytes = json_object_get(json_object_get(event, "args"), "bytes");
    const json_t *duration = json_object_get(event, "dur");
    if (name == NULL || kind == NULL || !json_is_number(time)) return FT_OK; // not ours
    double seconds = json_number_value(time) * 1e-6;
    if (strcmp(kind, "C") == 0) take_process(t, json_integer_value(json_object_get(event, "pid")), seconds);
    if (strcmp(kind, "C") == 0 && category_named(name) >= 0 && json_is_number(bytes))
        return take_counter(t, category_named(name), seconds, json_number_value(bytes));
    if (strcmp(kind, "X") == 0 && json_is_number(duration)) take_phase(t, seconds, seconds + json_number_value(duration) * 1e-6);
    return FT_OK;
}

static ft_status draw(const course *t, bool incomplete, FILE *out) {
    ft_chart chart = {.title = "Memory by category",
                      .x_name = "seconds since the start",
                      .x_unit = FT_UNIT_SECONDS,
                      .y_unit = FT_UNIT_BYTES,
                      .mark = t->moved,
                      .mark_name = "on another device"};
    for (int c = 0; c < FT_MEM_CATEGORIES; c++) {
        bool used = false;
        for (int64_t i = 0; i < t->count && !used; i++)
            used = t->bytes[c][i] > 0;
        if (used)
            chart.lines[chart.line_count++] =
                (ft_chart_line){ft_memory_category_name((ft_memory_category)c), t->count, t->seconds, t->bytes[c]};
    }
    if (incomplete) chart.blank_from = t->blank_from, chart.blank_to = t->blank_to;
    if (incomplete) chart.blank_name = "not kept";
    return ft_chart_stacked(out, &chart);
}

ft_status ft_page_has_timeline(const ft_run_record *run, bool *has) {
    ft_arena arena = {0};
    char *path = ft_path_join(&arena, run->path, "memory_timeline.json");
    *has = path != NULL && ft_path_exists(path);
    ft_arena_free(&arena);
    return path != NULL ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_page_memory_course(const ft_run_record *run, FILE *out) {
    ft_arena arena = {0};
    course t = {.moved = NAN};
    json_t *root = NULL;
    char *path = ft_path_join(&arena, run->path, "memory_timeline.json");
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && ft_path_exists(path)) status = ft_json_load(path, &root);
    const json_t *events = json_object_get(root, "traceEvents"), *event;
    size_t i;
    json_array_foreach(events, i, event) {
        if (status == FT_OK) status = take_event(&t, event);
    }
    const char *left_out = json_string_value(json_object_get(json_object_get(root, "otherData"), "events_left_out"));
    bool incomplete = left_out != NULL && strcmp(left_out, "0") != 0;
    if (status == FT_OK && t.count > 0) status = draw(&t, incomplete && t.blank_to > t.blank_from, out);
    json_decref(root);
    free(t.seconds);
    for (int c = 0; c < FT_MEM_CATEGORIES; c++)
        free(t.bytes[c]);
    ft_arena_free(&arena);
    return status;
}

// ---- from run.json ------------------------------------------------------------------------------------------------------

static void byte_rows(const json_t *object, FILE *out) {
    const char *key;
    json_t *value;
    double most = 0;
    json_object_foreach((json_t *)object, key, value) most = fmax(most, json_number_value(value));
    json_object_foreach((json_t *)object, key, value) {
        double bytes = json_number_value(value);
        char text[24];
        if (!json_is_number(value) || bytes < 0) continue;
        fputs("<tr><td>", out);
        ft_html_text(out, key);
        fprintf(out, "</td><td class=\"n\">%s</td><td><span class=\"bar\" style=\"width:%.1f%%\"></span></td></tr>\n",
                ft_bytes_text((size_t)bytes, text), most > 0 ? 100 * bytes / most : 0);
    }
}

static void byte_table(const char *title, const json_t *object, FILE *out) {
    if (json_object_size(object) == 0) return;
    fprintf(out, "<section class=\"card\"><h3>%s</h3><div class=\"scroll\"><table class=\"wide bars\">\n", title);
    byte_rows(object, out);
    fputs("</table></div></section>\n", out);
}

static void site_table(const json_t *sites, FILE *out) {
    size_t i;
    const json_t *site;
    char text[24];
    if (json_array_size(sites) == 0) return;
    fputs("<section class=\"card\"><h3>Largest at the peak</h3><div class=\"scroll\"><table class=\"wide\">\n", out);
    json_array_foreach(sites, i, site) {
        const char *name = json_string_value(json_object_get(site, "site")),
                   *category = json_string_value(json_object_get(site, "category"));
        if (name == NULL || category == NULL || i == SITES) break;
        fputs("<tr><td>", out);
        ft_html_text(out, name);
        fputs("</td><td class=\"soft\">", out);
        ft_html_text(out, category);
        fprintf(out, "</td><td class=\"n\">%s</td></tr>\n",
                ft_bytes_text((size_t)json_number_value(json_object_get(site, "bytes")), text));
    }
    fputs("</table></div></section>\n", out);
}

// What the figures are not of: devices that the run left in the middle.
static void earlier_devices(const json_t *devices, FILE *out) {
    size_t i;
    const json_t *device;
    char allocated[24], reserved[24];
    json_array_foreach(devices, i, device) {
        const char *name = json_string_value(json_object_get(device, "device"));
        const json_t *memory = json_object_get(device, "memory");
        if (name == NULL) continue;
        fputs("<p class=\"soft\">Before that on ", out);
        ft_html_text(out, name);
        fprintf(out, ", steps %lld to %lld: peak %s allocated, %s reserved.</p>\n",
                (long long)json_integer_value(json_object_get(device, "first_step")),
                (long long)json_integer_value(json_object_get(device, "last_step")),
                ft_bytes_text((size_t)json_number_value(json_object_get(memory, "peak_allocated_bytes")), allocated),
                ft_bytes_text((size_t)json_number_value(json_object_get(memory, "peak_reserved_bytes")), reserved));
    }
}

void ft_page_memory(const ft_run_record *run, FILE *out) {
    const json_t *memory = json_object_get(run->run, "memory"), *planned = json_object_get(run->run, "planned");
    char allocated[24], reserved[24], before[24];
    if (memory == NULL) return;
    fprintf(out, "<h2>Memory</h2>\n<p class=\"soft\">Peak %s allocated, %s reserved",
            ft_bytes_text((size_t)json_number_value(json_object_get(memory, "peak_allocated_bytes")), allocated),
            ft_bytes_text((size_t)json_number_value(json_object_get(memory, "peak_reserved_bytes")), reserved));
    if (planned != NULL)
        fprintf(out, "; planned before the start: %s allocated",
                ft_bytes_text((size_t)json_number_value(json_object_get(planned, "peak_allocated_bytes")), before));
    fputs(".</p>\n", out);
    earlier_devices(json_object_get(run->run, "earlier_devices"), out);
    fputs("<div class=\"two below\">\n", out);
    byte_table("At the peak, by category", json_object_get(memory, "at_peak"), out);
    byte_table("Peak of each phase", json_object_get(memory, "phases"), out);
    site_table(json_object_get(run->run, "sites"), out);
    fputs("</div>\n", out);
}
