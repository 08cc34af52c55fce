// fake_nvml.c - a libnvidia-ml.so.1 whose processes stand in FAKE_NVML: "PID=BYTES,PID=?" ('?': the driver does not say),
// those after a ';' draw. "error=N": every question is answered by that error. FAKE_SENSORS: "USED TOTAL CELSIUS BUSY", a '-' for
// what the chip does not tell; it is a file's name, read anew at each question, when it begins with a '/'. In a slice of a GPU is the
// first process alone, and it has neither temperature nor load.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process;

static int begun, slice; // the addresses are the handles: of any GPU, of any slice
static const char *settings(void) {
    const char *text = getenv("FAKE_NVML");
    return text != NULL ? text : "";
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *list);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, process *list);
const char *nvmlErrorString(int result);

typedef struct memory { unsigned long long total, unused, used; } memory;
typedef struct utilization { unsigned gpu, memory; } utilization;
int nvmlDeviceGetMemoryInfo(void *device, memory *out);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetUtilizationRates(void *device, utilization *out);

int nvmlInit_v2(void) { return begun++ >= 0 ? 0 : 999; }
int nvmlShutdown(void) { return begun-- > 0 ? 0 : 1; }
const char *nvmlErrorString(int result) { return result == 4 ? "Insufficient Permissions" : "Unknown Error"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device) {
    if (begun < 1) return 1;
    *device = &begun;
    return strncmp(pci, "0000:3", 6) == 0 ? 0 : 6;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (begun < 1) return 1;
    *device = &slice;
    return strncmp(uuid, "MIG-fa0b0000-0000-0000-0000-00000000513", 39) == 0 && strlen(uuid) == 40 ? 0 : 6;
}

static int list_of(void *device, const char *at, unsigned *count, process *list) {
    if (begun < 1 || (device != &begun && device != &slice)) return 2;
    if (strncmp(settings(), "error=", 6) == 0) return atoi(settings() + 6);
    unsigned room = *count;
    *count = 0;
    while (at != NULL && *at != '\0' && *at != ';') {
        char *end;
        process row = {.pid = (unsigned)strtoul(at, &end, 10)};
        row.bytes = end[1] == '?' ? ~0ULL : strtoull(end + 1, NULL, 10);
        if (device == &slice && *count == 1) return 0;
        if (*count < room) list[*count] = row;
        ++*count;
        at = strpbrk(end, ",;");
        if (at != NULL && *at == ',') at++;
    }
    return *count > room ? 7 : 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *list) {
    return list_of(device, settings(), count, list);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, process *list) {
    const char *at = strchr(settings(), ';');
    return list_of(device, at != NULL ? at + 1 : "", count, list);
}

// The value of that number; 3, not supported, where there is none.
static int sensor(int number, unsigned long long *value) {
    char text[128] = "", word[32] = "-", *at = text;
    const char *given = getenv("FAKE_SENSORS");
    if (given != NULL && given[0] == '/') {
        FILE *file = fopen(given, "r");
        if (file == NULL || fgets(text, sizeof text, file) == NULL) text[0] = '\0';
        if (file != NULL) fclose(file);
    } else if (given != NULL) {
        snprintf(text, sizeof text, "%s", given);
    }
    for (int i = 0, length; i <= number; i++, at += length)
        if (sscanf(at, "%31s%n", word, &length) != 1) return 3;
    if (begun < 1) return 1;
    if (word[0] == '-') return 3;
    *value = strtoull(word, NULL, 10);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, memory *out) {
    int result = sensor(0, &out->used);
    if (result == 0) result = sensor(1, &out->total);
    if (result == 0) out->unused = out->total - out->used;
    return result;
}

int nvmlDeviceGetTemperature(void *device, int which, unsigned *celsius) {
    unsigned long long value = 0;
    if (device == &slice) return 3;
    int result = which == 0 ? sensor(2, &value) : 2;
    *celsius = (unsigned)value;
    return result;
}

int nvmlDeviceGetUtilizationRates(void *device, utilization *out) {
    unsigned long long value = 0;
    if (device == &slice) return 3;
    int result = sensor(3, &value);
    *out = (utilization){.gpu = (unsigned)value};
    return result;
}
