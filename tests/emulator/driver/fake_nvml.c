// fake_nvml.c - a libnvidia-ml.so.1 whose processes stand in FAKE_NVML: "PID=BYTES,PID=?" ('?': the driver does not say),
// those after a ';' draw. "error=N": every question is answered by that error.
#include <stdlib.h>
#include <string.h>

typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process;

static int begun;
static const char *settings(void) {
    const char *text = getenv("FAKE_NVML");
    return text != NULL ? text : "";
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *list);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, process *list);
const char *nvmlErrorString(int result);

int nvmlInit_v2(void) { return begun++ >= 0 ? 0 : 999; }
int nvmlShutdown(void) { return begun-- > 0 ? 0 : 1; }
const char *nvmlErrorString(int result) { return result == 4 ? "Insufficient Permissions" : "Unknown Error"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device) {
    if (begun < 1) return 1;
    *device = &begun;
    return strncmp(pci, "0000:3", 6) == 0 ? 0 : 6;
}

static int list_of(void *device, const char *at, unsigned *count, process *list) {
    if (begun < 1 || device != &begun) return 2;
    if (strncmp(settings(), "error=", 6) == 0) return atoi(settings() + 6);
    unsigned room = *count;
    *count = 0;
    while (at != NULL && *at != '\0' && *at != ';') {
        char *end;
        process row = {.pid = (unsigned)strtoul(at, &end, 10)};
        row.bytes = end[1] == '?' ? ~0ULL : strtoull(end + 1, NULL, 10);
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
