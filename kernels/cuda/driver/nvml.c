// Names, numbers and structures are those of NVML's public interface, in the form that drivers have had since release 510.
#include "kernels/cuda/driver/nvml.h"
#include "base/arena.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_INSUFFICIENT_SIZE = 7 };
static const unsigned long long not_available = ~0ULL;
static const char system_library[] = "libnvidia-ml.so.1";

typedef struct nvml_process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} nvml_process;

typedef int nvml_list(void *device, unsigned *count, nvml_process *list);

typedef struct nvml_memory {
    unsigned long long total, unused, used; // bytes
} nvml_memory;

typedef struct nvml_utilization {
    unsigned gpu, memory; // percent
} nvml_utilization;

enum { NVML_TEMPERATURE_GPU = 0 };

typedef struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *pci, void **device);
    int (*find_uuid)(const char *uuid, void **device); // may be missing, as may
    nvml_list *compute, *graphics;
    int (*memory)(void *device, nvml_memory *memory); // these
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*utilization)(void *device, nvml_utilization *utilization);
    const char *(*text)(int result);
} nvml;

// POSIX has dlsym's pointer hold functions too.
static ft_status symbol(const nvml *m, const char *name, void *slot) {
    void *address = dlsym(m->library, name);
    if (address == NULL) return ft_fail(FT_NO_DEVICE, system_library, "it has no function %s", name);
    memcpy(slot, &address, sizeof address);
    return FT_OK;
}

static void symbol_if_there(const nvml *m, const char *name, void *slot) {
    void *address = dlsym(m->library, name);
    memcpy(slot, &address, sizeof address);
}

static ft_status nvml_fail(const nvml *m, const char *call, int result) {
    const char *text = m->text(result);
    return ft_fail(FT_NO_DEVICE, call, "%s", text != NULL ? text : "unknown error");
}

static ft_status nvml_open(nvml *m) {
    // As with the driver's library: once in, it stays.
    m->library = dlopen(system_library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (m->library == NULL) return ft_fail(FT_NO_DEVICE, NULL, "%s was not found", system_library);
    symbol_if_there(m, "nvmlDeviceGetHandleByUUID", &m->find_uuid);
    symbol_if_there(m, "nvmlDeviceGetMemoryInfo", &m->memory);
    symbol_if_there(m, "nvmlDeviceGetTemperature", &m->temperature);
    symbol_if_there(m, "nvmlDeviceGetUtilizationRates", &m->utilization);
    FT_TRY(symbol(m, "nvmlInit_v2", &m->init));
    FT_TRY(symbol(m, "nvmlShutdown", &m->shutdown));
    FT_TRY(symbol(m, "nvmlDeviceGetHandleByPciBusId_v2", &m->find));
    FT_TRY(symbol(m, "nvmlDeviceGetComputeRunningProcesses_v3", &m->compute));
    FT_TRY(symbol(m, "nvmlDeviceGetGraphicsRunningProcesses_v3", &m->graphics));
    return symbol(m, "nvmlErrorString", &m->text);
}

// Numbers of the driver are those of this system unless a container has its own, whose process of that number is another one.
// The kernel gives the first namespace of process numbers this fixed name.
static bool numbers_are_ours(void) {
    char name[64];
    ssize_t length = readlink("/proc/self/ns/pid", name, sizeof name - 1);
    if (length <= 0) return false;
    name[length] = '\0';
    return strcmp(name, "pid:[4026531836]") == 0;
}

static void read_name(ft_gpu_process *process) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/comm", (long long)process->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return; // it has gone
    if (fgets(process->name, sizeof process->name, file) == NULL) process->name[0] = '\0';
    process->name[strcspn(process->name, "\n")] = '\0';
    fclose(file);
}

// Adds one, or of a process that is there already the larger figure: one that computes and draws is in both lists.
static void add(ft_gpu_processes *processes, const nvml_process *row) {
    ft_gpu_process *at = processes->list;
    while (at < processes->list + processes->count && at->pid != row->pid)
        at++;
    if (at == processes->list + processes->count) {
        processes->count++;
        *at = (ft_gpu_process){.pid = row->pid};
    }
    if (row->bytes == not_available) return;
    at->has_bytes = true;
    if (row->bytes > at->bytes) at->bytes = row->bytes;
}

static ft_status read_list(const nvml *m, nvml_list *ask, const char *call, void *device, ft_gpu_processes *processes) {
    nvml_process *rows = NULL;
    unsigned room = 32, count;
    for (int attempt = 0;; attempt++) {
        nvml_process *more = ft_realloc(rows, room, sizeof *rows, "processes of a GPU");
        if (more == NULL) {
            free(rows);
            return FT_NO_MEMORY;
        }
        rows = more;
        count = room;
        int result = ask(device, &count, rows);
        if (result == NVML_SUCCESS) break;
        if (result == NVML_NOT_SUPPORTED) { // this chip does not draw
            count = 0;
            break;
        }
        if (result != NVML_INSUFFICIENT_SIZE || attempt == 8) { // more of them each time we ask?
            free(rows);
            return nvml_fail(m, call, result);
        }
        room = (count > room ? count : room) * 2;
    }
    size_t most = (size_t)processes->count + count;
    ft_gpu_process *list = ft_realloc(processes->list, most > 0 ? most : 1, sizeof *list, "processes of a GPU");
    if (list != NULL) {
        processes->list = list;
        for (unsigned i = 0; i < count; i++)
            add(processes, &rows[i]);
    }
    free(rows);
    return list != NULL ? FT_OK : FT_NO_MEMORY;
}

static int by_bytes(const void *left, const void *right) {
    const ft_gpu_process *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

// The chip, whole: slices share its address.
static ft_status find_chip(const nvml *m, const ft_gpu *gpu, void **device) {
    int result = m->find(gpu->pci, device);
    return result == NVML_SUCCESS ? FT_OK : nvml_fail(m, "nvmlDeviceGetHandleByPciBusId", result);
}

// The slice where it is one, else the chip: nothing but NVML's own list of names tells a slice's UUID from a chip's.
static ft_status find_memory(const nvml *m, const ft_gpu *gpu, void **device) {
    char slice[sizeof gpu->uuid + 8];
    snprintf(slice, sizeof slice, "MIG-%s", gpu->uuid);
    if (m->find_uuid != NULL && m->find_uuid(slice, device) == NVML_SUCCESS) return FT_OK;
    return find_chip(m, gpu, device);
}

static ft_status read_device(const nvml *m, const ft_gpu *gpu, ft_gpu_processes *processes) {
    void *device;
    FT_TRY(find_memory(m, gpu, &device));
    FT_TRY(read_list(m, m->compute, "nvmlDeviceGetComputeRunningProcesses", device, processes));
    FT_TRY(read_list(m, m->graphics, "nvmlDeviceGetGraphicsRunningProcesses", device, processes));
    qsort(processes->list, (size_t)processes->count, sizeof *processes->list, by_bytes);
    for (int i = 0; i < processes->count && numbers_are_ours(); i++)
        read_name(&processes->list[i]);
    return FT_OK;
}

ft_status ft_cuda_processes_read(const ft_gpu *gpu, ft_gpu_processes *processes) {
    *processes = (ft_gpu_processes){.list = NULL};
    nvml m = {.library = NULL};
    FT_TRY(nvml_open(&m));
    int result = m.init();
    if (result != NVML_SUCCESS) return nvml_fail(&m, "nvmlInit", result);
    ft_status status = read_device(&m, gpu, processes);
    (void)m.shutdown(); // it says only that it was not begun
    return status;
}

void ft_cuda_processes_free(ft_gpu_processes *processes) {
    free(processes->list);
    *processes = (ft_gpu_processes){.list = NULL};
}

// ---- how it is ------------------------------------------------------------------------------------------------------

static ft_status ask_sensors(const nvml *m, const ft_gpu *gpu, ft_gpu_sensors *sensors) {
    void *device, *chip;
    nvml_memory memory;
    nvml_utilization utilization;
    unsigned celsius;
    FT_TRY(find_memory(m, gpu, &device));
    FT_TRY(find_chip(m, gpu, &chip));
    if (m->memory != NULL && m->memory(device, &memory) == NVML_SUCCESS) {
        sensors->has_memory = true;
        sensors->used_bytes = (size_t)memory.used;
        sensors->total_bytes = (size_t)memory.total;
    }
    if (m->temperature != NULL && m->temperature(chip, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS) {
        sensors->has_temperature = true;
        sensors->celsius = (int)celsius;
    }
    if (m->utilization != NULL && m->utilization(chip, &utilization) == NVML_SUCCESS) {
        sensors->has_busy = true;
        sensors->busy = (int)utilization.gpu;
    }
    return FT_OK;
}

ft_status ft_cuda_sensors_read(const ft_gpu *gpu, ft_gpu_sensors *sensors) {
    *sensors = (ft_gpu_sensors){.has_memory = false};
    nvml m = {.library = NULL};
    FT_TRY(nvml_open(&m));
    int result = m.init();
    if (result != NVML_SUCCESS) return nvml_fail(&m, "nvmlInit", result);
    ft_status status = ask_sensors(&m, gpu, sensors);
    (void)m.shutdown();
    return status;
}
