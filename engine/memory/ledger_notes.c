#include "engine/memory/ledger_notes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD = 640, HEAD = 9 }; // "CHECKSUM " in front of the rest

static uint32_t checksum(const char *text, size_t length) { // FNV-1a
    uint32_t sum = 0x811C9DC5u;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (unsigned char)text[i]) * 0x01000193u;
    return sum;
}

static int open_notes(const ft_ledger *ledger, int flags) {
    static const char ending[] = ".ledger";
    char path[4096];
    struct stat ledger_file;
    const char *from = ft_ledger_path(ledger);
    const size_t length = strlen(from) - (sizeof ending - 1);
    if (length + sizeof ".notes" > sizeof path || stat(from, &ledger_file) != 0) return -1;
    snprintf(path, sizeof path, "%.*s.notes", (int)length, from);
    // Made when it is missed, by whoever may read the ledger: as that one, which may be shared.
    flags |= O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK; // nobody waits for the reader of a pipe of that name
    int file = open(path, flags);
    if (file < 0 && errno == ENOENT && (flags & O_WRONLY) != 0)
        file = open(path, flags | O_CREAT, ledger_file.st_mode & 0666);
    return file;
}

void ft_ledger_note_write(const ft_ledger *ledger, const ft_ledger_note *n) {
    ft_reservation mine;
    char record[RECORD] = "";
    if (ledger == NULL || !ft_ledger_mine(ledger, &mine)) return;
    const int file = open_notes(ledger, O_WRONLY);
    if (file < 0) return;
    snprintf(record + HEAD, sizeof record - HEAD, "%lld %llu %lld %lld %lld %zu %zu %.1f %lld %s\n%s",
             (long long)mine.pid, (unsigned long long)mine.started, (long long)mine.since, (long long)n->step,
             (long long)n->steps, n->allocated, n->reserved, n->left, (long long)n->at, n->doing, n->run);
    char sum[HEAD + 1];
    snprintf(sum, sizeof sum, "%08x ", checksum(record + HEAD, sizeof record - HEAD));
    memcpy(record, sum, HEAD);
    ssize_t written = pwrite(file, record, sizeof record, (off_t)mine.slot * RECORD);
    (void)written;
    close(file);
}

static bool read_note(const char record[RECORD + 1], const ft_reservation *r, ft_ledger_note *n) {
    long long pid, since, step, steps, at;
    unsigned long long started;
    unsigned sum;
    int used = 0;
    *n = (ft_ledger_note){.left = -1};
    if (sscanf(record, "%8x", &sum) != 1 || sum != checksum(record + HEAD, RECORD - HEAD)) return false;
    if (sscanf(record + HEAD, "%lld %llu %lld %lld %lld %zu %zu %lf %lld %15s%n", &pid, &started, &since, &step, &steps,
               &n->allocated, &n->reserved, &n->left, &at, n->doing, &used) != 10 ||
        record[HEAD + used] != '\n')
        return false;
    if (pid != r->pid || started != r->started || since != r->since) return false; // of who had the slot before
    n->step = step;
    n->steps = steps;
    n->at = at;
    snprintf(n->run, sizeof n->run, "%s", record + HEAD + used + 1);
    return true;
}

bool ft_ledger_note_read(const ft_ledger *ledger, const ft_reservation *reservation, ft_ledger_note *note) {
    char record[RECORD + 1] = "";
    const int file = open_notes(ledger, O_RDONLY);
    if (file < 0) return false;
    const ssize_t got = pread(file, record, RECORD, (off_t)reservation->slot * RECORD);
    close(file);
    return got == RECORD && read_note(record, reservation, note);
}
