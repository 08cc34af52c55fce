#include "engine/memory/ledger.h"

#include "base/files.h"
#include "engine/memory/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RECORD = 96, PATIENCE_MS = 10000, PAUSE_US = 500, REOPENINGS = 16, NOTHING = -1 };

struct ft_ledger {
    ft_ledger_device device;
    ft_arena arena;
    const char *path;
    int fd;
    int slot; // of our reservation, or NOTHING
    ft_reservation mine;
};

// ---- locks -------------------------------------------------------------------------------------------------------

#define LEDGER_BYTE ((off_t)1 << 61) // behind every file's end; slot i has the byte at LEDGER_BYTE + 1 + i

static int lock_byte(int fd, off_t byte, int type, int command) {
    struct flock range = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, command, &range) != 0) return errno;
    return command == F_OFD_GETLK && range.l_type != F_UNLCK ? EAGAIN : 0;
}

static bool is_held(int error) { return error == EAGAIN || error == EACCES; }

static ft_status fail_lock(const ft_ledger *l, int error) {
    return ft_fail_errno(FT_FAILED, error, l->path, "the ledger of reservations cannot be locked");
}

// Its holder is in and out within microseconds, unless it was stopped just then: so a try now and then with an end,
// rather than a wait that may never end.
static ft_status lock_ledger(const ft_ledger *l) {
    for (int64_t waited = 0;; waited += PAUSE_US) {
        int error = lock_byte(l->fd, LEDGER_BYTE, F_WRLCK, F_OFD_SETLK);
        if (error == 0) return FT_OK;
        if (!is_held(error)) return fail_lock(l, error);
        if (waited > (int64_t)PATIENCE_MS * 1000) break;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000L}, NULL);
    }
    ft_fail(FT_FAILED, l->path, "another process has had the ledger of reservations locked for %d seconds",
            PATIENCE_MS / 1000);
    ft_hint("a stopped ftengine? `fuser -v %s` says who has it open", l->path);
    return FT_FAILED;
}

static void unlock_ledger(const ft_ledger *l) { (void)lock_byte(l->fd, LEDGER_BYTE, F_UNLCK, F_OFD_SETLK); }

// ---- the file ----------------------------------------------------------------------------------------------------

// A directory in /tmp can be made by anybody beforehand: it has to be ours, and nobody else's to write.
static ft_status make_own_directory(ft_arena *arena, const char **directory) {
    char *path = ft_arena_format(arena, "/tmp/ftengine-%lu", (unsigned long)geteuid());
    struct stat st;
    if (path == NULL) return FT_NO_MEMORY;
    *directory = path;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return ft_fail_errno(FT_FAILED, errno, path, "cannot create the directory of the ledgers");
    if (lstat(path, &st) != 0)
        return ft_fail_errno(FT_FAILED, errno, path, "cannot look at the directory of the ledgers");
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0) return FT_OK;
    ft_fail(FT_INVALID, path, "the directory of the ledgers is not this user's alone");
    ft_hint("remove it, or set FTENGINE_LEDGER_DIR to another directory");
    return FT_INVALID;
}

ft_status ft_ledger_directory(ft_arena *arena, const char **directory, unsigned *mode) {
    const char *given = getenv("FTENGINE_LEDGER_DIR");
    *mode = 0600;
    if (given == NULL || given[0] == '\0') return make_own_directory(arena, directory);
    *mode = 0666; // who shares it, umask and the directory decide
    *directory = given;
    ft_status status = ft_make_directories(given);
    if (status != FT_OK && status != FT_NO_MEMORY)
        status = ft_fail(FT_INVALID, "FTENGINE_LEDGER_DIR", "cannot use the directory %s", given);
    return status;
}

static ft_status open_file(ft_ledger *l) {
    const char *directory;
    unsigned mode;
    FT_TRY(ft_ledger_directory(&l->arena, &directory, &mode));
    if (l->path == NULL) l->path = ft_arena_format(&l->arena, "%s/%s.ledger", directory, l->device.name);
    if (l->path == NULL) return FT_NO_MEMORY;
    // Not made before it is missed: in a directory like /tmp, O_CREAT is refused for a file that is another user's.
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    for (int i = 0; i < REOPENINGS && l->fd < 0; i++) {
        l->fd = open(l->path, flags);
        if (l->fd < 0 && errno == ENOENT) l->fd = open(l->path, flags | O_CREAT | O_EXCL, mode);
        if (l->fd < 0 && errno != EEXIST && errno != ENOENT) break;
    }
    if (l->fd >= 0) return FT_OK;
    return ft_fail_errno(getenv("FTENGINE_LEDGER_DIR") != NULL ? FT_INVALID : FT_FAILED, errno, l->path,
                         "cannot open the ledger of reservations");
}

// Locks the file that the path names now: a cleaner of /tmp may have removed the one that was opened.
static ft_status lock_current(ft_ledger *l) {
    for (int i = 0; i < REOPENINGS; i++) {
        struct stat st;
        if (l->fd < 0) FT_TRY(open_file(l));
        FT_TRY(lock_ledger(l));
        if (l->slot != NOTHING || (fstat(l->fd, &st) == 0 && st.st_nlink > 0)) return FT_OK;
        close(l->fd);
        l->fd = -1;
    }
    return ft_fail(FT_FAILED, l->path, "the ledger of reservations is removed again and again");
}

// ---- records -----------------------------------------------------------------------------------------------------

static uint32_t checksum(const char *text, size_t length) { // FNV-1a
    uint32_t sum = 0x811C9DC5u;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (unsigned char)text[i]) * 0x01000193u;
    return sum;
}

enum { SUMMED = 83 }; // bytes in front of the checksum

static void write_record(const ft_reservation *r, char out[RECORD + 1]) {
    int length = snprintf(out, RECORD + 1, "%20lld %20llu %20llu %19lld ", (long long)r->pid,
                          (unsigned long long)r->started, (unsigned long long)r->bytes, (long long)r->since);
    snprintf(out + length, (size_t)(RECORD + 1 - length), "%08x    \n", checksum(out, (size_t)length));
}

static bool read_record(const char in[RECORD], ft_reservation *r) {
    char text[RECORD + 1];
    long long pid, since;
    unsigned long long started, bytes;
    unsigned sum;
    memcpy(text, in, RECORD);
    text[RECORD] = '\0';
    if (sscanf(text, "%lld %llu %llu %lld %x", &pid, &started, &bytes, &since, &sum) != 5 ||
        sum != checksum(text, SUMMED))
        return false;
    *r = (ft_reservation){.pid = pid, .started = started, .bytes = (size_t)bytes, .since = since};
    return true;
}

static ft_status put_record(const ft_ledger *l, int slot, const char record[RECORD]) {
    ssize_t written;
    do
        written = pwrite(l->fd, record, RECORD, (off_t)slot * RECORD);
    while (written < 0 && errno == EINTR);
    if (written == RECORD) return FT_OK;
    return ft_fail_errno(FT_FAILED, written < 0 ? errno : ENOSPC, l->path, "cannot write the ledger of reservations");
}

static ft_status read_all(const ft_ledger *l, char *records, int *slots) {
    size_t got = 0;
    while (got < (size_t)FT_LEDGER_ENTRIES * RECORD) {
        ssize_t more = pread(l->fd, records + got, (size_t)FT_LEDGER_ENTRIES * RECORD - got, (off_t)got);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return ft_fail_errno(FT_FAILED, errno, l->path, "cannot read the ledger of reservations");
        if (more == 0) break;
        got += (size_t)more;
    }
    *slots = (int)(got / RECORD);
    return FT_OK;
}

static ft_status fail_damaged(const ft_ledger *l) {
    ft_fail(FT_FAILED, l->path, "the ledger of reservations is damaged: a record of a living run cannot be read");
    ft_hint("it can be removed when no ftengine runs");
    return FT_FAILED;
}

// What is alive, and where there is room (NOTHING: nowhere). The dead are removed. Under the ledger's lock.
static ft_status look(const ft_ledger *l, ft_ledger_state *state, int *vacant) {
    char records[FT_LEDGER_ENTRIES * RECORD], blank[RECORD];
    memset(blank, ' ', RECORD);
    blank[RECORD - 1] = '\n';
    int slots = 0, end = 0;
    *state = (ft_ledger_state){.count = 0};
    *vacant = NOTHING;
    FT_TRY(read_all(l, records, &slots));
    for (int i = 0; i < slots; i++) {
        const char *record = records + (size_t)i * RECORD;
        int error = i == l->slot ? EAGAIN : lock_byte(l->fd, LEDGER_BYTE + 1 + i, F_WRLCK, F_OFD_GETLK);
        if (error != 0 && !is_held(error)) return fail_lock(l, error);
        if (error == 0) { // nobody's, or its owner is dead
            if (*vacant == NOTHING) *vacant = i;
            if (memcmp(record, blank, RECORD) != 0) FT_TRY(put_record(l, i, blank));
            continue;
        }
        ft_reservation *r = &state->reservations[state->count++];
        if (!read_record(record, r)) return fail_damaged(l);
        r->slot = i;
        state->reserved = r->bytes > SIZE_MAX - state->reserved ? SIZE_MAX : state->reserved + r->bytes;
        end = i + 1;
    }
    if (*vacant == NOTHING && slots < FT_LEDGER_ENTRIES) *vacant = slots;
    if (ftruncate(l->fd, (off_t)end * RECORD) != 0)
        return ft_fail_errno(FT_FAILED, errno, l->path, "cannot shorten the ledger of reservations");
    state->free = state->reserved < l->device.capacity ? l->device.capacity - state->reserved : 0;
    size_t unused = l->device.unused != NULL ? l->device.unused(l->device.context, state->reservations, state->count) : SIZE_MAX;
    if (unused < state->free) state->free = unused;
    return FT_OK;
}

static ft_status take_slot(ft_ledger *l, int slot, size_t bytes) {
    char record[RECORD + 1];
    int64_t pid = getpid();
    ft_reservation mine = {
        .slot = slot, .pid = pid, .started = ft_process_started(pid), .since = (int64_t)time(NULL), .bytes = bytes};
    int error = lock_byte(l->fd, LEDGER_BYTE + 1 + slot, F_WRLCK, F_OFD_SETLK);
    if (error != 0) return fail_lock(l, error);
    write_record(&mine, record);
    ft_status status = put_record(l, slot, record);
    if (status == FT_OK) {
        l->slot = slot;
        l->mine = mine;
    } else
        (void)lock_byte(l->fd, LEDGER_BYTE + 1 + slot, F_UNLCK, F_OFD_SETLK);
    return status;
}

// ---- the calls ---------------------------------------------------------------------------------------------------

ft_status ft_ledger_open(const ft_ledger_device *device, ft_ledger **ledger) {
    ft_ledger *l = ft_calloc(1, sizeof *l, "a ledger of reservations");
    *ledger = NULL;
    if (l == NULL) return FT_NO_MEMORY;
    *l = (ft_ledger){.device = *device, .fd = -1, .slot = NOTHING};
    ft_status status = open_file(l);
    int error = status == FT_OK ? lock_byte(l->fd, LEDGER_BYTE, F_WRLCK, F_OFD_GETLK) : 0;
    if (error != 0 && !is_held(error)) status = fail_lock(l, error); // a file system without locks
    if (status == FT_OK)
        *ledger = l;
    else
        ft_ledger_close(l);
    return status;
}

ft_status ft_ledger_read(ft_ledger *l, ft_ledger_state *state) {
    int vacant;
    FT_TRY(lock_current(l));
    ft_status status = look(l, state, &vacant);
    unlock_ledger(l);
    return status;
}

ft_status ft_ledger_enter(ft_ledger *l, size_t bytes, size_t min_free, ft_ledger_state *state, bool *entered) {
    int vacant;
    *entered = false;
    if (l->slot != NOTHING) return ft_fail(FT_FAILED, l->path, "internal: a second reservation");
    FT_TRY(lock_current(l));
    ft_status status = look(l, state, &vacant);
    if (status == FT_OK && vacant != NOTHING && bytes <= state->free && min_free <= state->free) {
        status = take_slot(l, vacant, bytes);
        *entered = status == FT_OK;
    }
    unlock_ledger(l);
    return status;
}

ft_status ft_ledger_shrink(ft_ledger *l, size_t bytes) {
    char record[RECORD + 1];
    if (l->slot == NOTHING || bytes >= l->mine.bytes) return FT_OK;
    ft_reservation mine = l->mine;
    mine.bytes = bytes;
    write_record(&mine, record);
    FT_TRY(lock_ledger(l)); // the file is the one that the reservation is in
    const ft_status status = put_record(l, l->slot, record);
    unlock_ledger(l);
    if (status == FT_OK) l->mine = mine;
    return status;
}

void ft_ledger_leave(ft_ledger *l) {
    if (l->slot == NOTHING) return;
    // Without its lock the reservation is gone for everyone; the look only tidies the file, and may fail.
    int slot = l->slot, vacant;
    ft_ledger_state state;
    ft_error before;
    ft_error_save(&before);
    bool locked = lock_ledger(l) == FT_OK;
    (void)lock_byte(l->fd, LEDGER_BYTE + 1 + slot, F_UNLCK, F_OFD_SETLK);
    l->slot = NOTHING;
    if (locked) {
        (void)look(l, &state, &vacant);
        unlock_ledger(l);
    }
    ft_error_restore(&before);
}

bool ft_ledger_mine(const ft_ledger *l, ft_reservation *reservation) {
    if (l == NULL || l->slot == NOTHING) return false;
    *reservation = l->mine;
    return true;
}

const char *ft_ledger_path(const ft_ledger *l) { return l->path; }

void ft_ledger_close(ft_ledger *l) {
    if (l == NULL) return;
    ft_ledger_leave(l);
    if (l->fd >= 0) close(l->fd);
    ft_arena_free(&l->arena);
    free(l);
}
