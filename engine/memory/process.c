#include "engine/memory/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The beginning of /proc/PID/NAME as a string; "" when it cannot be read. No allocation: this is also asked while the
// host has no memory.
static void read_proc(int64_t pid, const char *name, char *out, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
    out[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t got = read(fd, out, size - 1);
    close(fd);
    out[got > 0 ? got : 0] = '\0';
}

uint64_t ft_process_started(int64_t pid) {
    char text[1024];
    read_proc(pid, "stat", text, sizeof text);
    // The second field is the program's name in parentheses, and may hold anything: the fields are counted behind it.
    const char *at = strrchr(text, ')');
    unsigned long long started = 0;
    if (at == NULL ||
        sscanf(at + 1, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &started) !=
            1)
        return 0;
    return started;
}

uint64_t ft_process_computed(int64_t pid) {
    char text[1024];
    read_proc(pid, "stat", text, sizeof text);
    const char *at = strrchr(text, ')');
    unsigned long long user = 0, system = 0;
    if (at == NULL ||
        sscanf(at + 1, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user, &system) != 2)
        return 0;
    return user + system;
}

size_t ft_process_resident(int64_t pid) {
    char text[256];
    unsigned long long pages = 0;
    read_proc(pid, "statm", text, sizeof text);
    if (sscanf(text, "%*s %llu", &pages) != 1) return 0;
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t kilobytes_at(const char *text, const char *word) {
    unsigned long long kilobytes = 0;
    const char *at = strstr(text, word);
    return at != NULL && sscanf(at + strlen(word), "%llu", &kilobytes) == 1 ? (size_t)kilobytes << 10 : 0;
}

size_t ft_process_held(int64_t pid) {
    char text[4096];
    read_proc(pid, "status", text, sizeof text);
    return kilobytes_at(text, "\nRssAnon:") + kilobytes_at(text, "\nRssShmem:");
}

ft_process_addresses ft_process_addresses_now(void) {
    char text[4096];
    read_proc(getpid(), "status", text, sizeof text);
    return (ft_process_addresses){.all = kilobytes_at(text, "\nVmSize:"), .data = kilobytes_at(text, "\nVmData:")};
}
