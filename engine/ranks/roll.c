#include "engine/ranks/roll.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char where[] = "ftengine devices --json";

static ft_status read_gpu(const json_t *device, ft_roll *roll) {
    const char *uuid, *name, *why;
    bool works;
    FT_TRY(ft_json_string(device, where, "uuid", "", &uuid));
    FT_TRY(ft_json_string(device, where, "device", "", &name));
    FT_TRY(ft_json_bool(device, where, "trains", false, &works));
    if (uuid[0] == '\0' || roll->count == FT_ROLL_GPUS) return FT_OK; // the CPU, or a GPU that does not say who it is
    ft_roll_gpu *gpu = &roll->gpu[roll->count];
    gpu->works = works;
    const json_t *missing = json_object_get(device, "missing");
    FT_TRY(ft_json_string(missing, where, "message", "it cannot be used", &why));
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
    snprintf(gpu->name, sizeof gpu->name, "%s", name);
    snprintf(gpu->why, sizeof gpu->why, "%.*s", FT_ROLL_WHY - 1, why);
    roll->count++;
    return FT_OK;
}

ft_status ft_roll_read(const char *text, size_t length, ft_roll *roll) {
    json_t *root, *device;
    size_t i;
    roll->count = 0;
    FT_TRY(ft_json_parse(text, length, where, &root));
    const json_t *devices = json_object_get(root, "devices");
    ft_status status = json_is_array(devices) ? FT_OK : ft_fail(FT_INVALID, where, "it has no list of devices");
    json_array_foreach(devices, i, device) if (status == FT_OK) status = read_gpu(device, roll);
    json_decref(root);
    return status;
}

// In the child: only calls that are safe between fork and exec.
static void become_asker(const char *program, int null, int out, pid_t parent) {
    char name[] = "ftengine", command[] = "devices", json[] = "--json";
    char *const arguments[] = {name, command, json, NULL};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGINT, &standard, NULL);
    sigaction(SIGTERM, &standard, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); // it died before the line above
    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0) _exit(127);
    execv(program, arguments);
    _exit(127);
}

static ft_status wait_for(pid_t pid, double seconds) {
    const double end = ft_now() + seconds;
    int status;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (ft_now() < end && ft_stop_signal() == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            continue;
        }
        kill(pid, SIGKILL);
        // One that hangs in the driver may not even die: it is init's then.
        for (int i = 0; i < 100 && waitpid(pid, &status, WNOHANG) != pid; i++)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        return ft_fail(FT_FAILED, where, "no answer");
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return FT_OK;
    return ft_fail(FT_FAILED, where, "it ended badly (%d)", status);
}

static ft_status read_answer(int file, ft_roll *roll) {
    struct stat s;
    if (fstat(file, &s) != 0) return ft_fail_errno(FT_FAILED, errno, where, "cannot read the answer");
    char *text = ft_calloc((size_t)s.st_size + 1, 1, "the devices of this machine");
    if (text == NULL) return FT_NO_MEMORY;
    const ssize_t got = pread(file, text, (size_t)s.st_size, 0);
    const ft_status status = got == (ssize_t)s.st_size
                                 ? ft_roll_read(text, (size_t)got, roll)
                                 : ft_fail_errno(FT_FAILED, errno, where, "cannot read the answer");
    free(text);
    return status;
}

ft_status ft_roll_call(const char *program, double seconds, ft_roll *roll) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC), answer = memfd_create("ftengine devices", MFD_CLOEXEC);
    ft_status status = FT_OK;
    roll->count = 0;
    if (null < 0 || answer < 0) status = ft_fail_errno(FT_FAILED, errno, where, "cannot ask for devices");
    const pid_t parent = getpid(), pid = status == FT_OK ? fork() : -1;
    if (pid == 0) become_asker(program != NULL ? program : "/proc/self/exe", null, answer, parent);
    if (status == FT_OK && pid < 0) status = ft_fail_errno(FT_FAILED, errno, where, "cannot start a process");
    if (status == FT_OK) status = wait_for(pid, seconds);
    if (status == FT_OK) status = read_answer(answer, roll);
    if (null >= 0) close(null);
    if (answer >= 0) close(answer);
    return status;
}
