#include "engine/track/event_file.h"

#include "base/arena.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ft_event_file {
    FILE *stream;
    char *path;
};

static const char prefix[] = "events.out.tfevents.";

// Castagnoli's polynomial, reflected; a table of 16 for half a byte each is small and, for a few hundred bytes a line,
// fast enough.
uint32_t ft_crc32c(const void *data, size_t length) {
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const unsigned char *bytes = data;
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        crc = table[(crc ^ bytes[i]) & 15] ^ crc >> 4;
        crc = table[(crc ^ bytes[i] >> 4) & 15] ^ crc >> 4;
    }
    return crc ^ 0xffffffff;
}

static void put(unsigned char *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static void put_checksum(unsigned char *out, const void *data, size_t length) {
    const uint32_t crc = ft_crc32c(data, length);
    put(out, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8), 4);
}

static ft_status write_record(ft_event_file *f, const ft_proto *event) {
    unsigned char head[12], tail[4];
    if (event->failed) return ft_error_code();
    put(head, event->length, 8);
    put_checksum(head + 8, head, 8);
    put_checksum(tail, event->data, event->length);
    if (fwrite(head, sizeof head, 1, f->stream) != 1 || fwrite(event->data, event->length, 1, f->stream) != 1 ||
        fwrite(tail, sizeof tail, 1, f->stream) != 1)
        return ft_fail_errno(FT_FAILED, errno, f->path, "cannot write");
    return FT_OK;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void begin_event(ft_proto *event, int64_t step) {
    ft_proto_double(event, 1, seconds_now());
    ft_proto_number(event, 2, step);
}

ft_status ft_event_file_add(ft_event_file *f, int64_t step, int field, ft_proto *what) {
    ft_proto event = {0};
    begin_event(&event, step);
    ft_proto_message(&event, field, what);
    const ft_status status = write_record(f, &event);
    ft_proto_free(&event);
    return status;
}

ft_status ft_event_file_flush(ft_event_file *f) {
    return fflush(f->stream) == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, f->path, "cannot write");
}

// The seconds in the name of the newest file there; -1: there is none.
static ft_status newest(const char *directory, long long *seconds) {
    DIR *d = opendir(directory);
    *seconds = -1;
    if (d == NULL) return ft_fail_errno(FT_FAILED, errno, directory, "cannot look for event files");
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, prefix, sizeof prefix - 1) != 0) continue;
        const long long of_this = strtoll(e->d_name + sizeof prefix - 1, NULL, 10);
        if (of_this > *seconds) *seconds = of_this;
    }
    closedir(d);
    return FT_OK;
}

// TensorBoard's own names: seconds, host, process, a number. What of a host's name could end a part of a path is left
// out.
static char *name_file(const char *directory, long long after, ft_arena *arena) {
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') strcpy(host, "localhost");
    for (char *c = host; *c != '\0'; c++)
        if (*c == '/') *c = '_';
    long long seconds = (long long)time(NULL);
    if (seconds <= after) seconds = after + 1; // two in one second, or a clock that was set back
    return ft_arena_format(arena, "%s/%s%010lld.%s.%lld.0", directory, prefix, seconds, host, (long long)getpid());
}

static ft_status make(const char *directory, bool *follows, ft_arena *arena, ft_event_file *f) {
    long long last;
    FT_TRY(ft_make_directories(directory));
    FT_TRY(newest(directory, &last));
    *follows = last >= 0;
    char *path = name_file(directory, last, arena);
    if (path == NULL) return FT_NO_MEMORY;
    f->path = ft_calloc(strlen(path) + 1, 1, "a path");
    if (f->path == NULL) return FT_NO_MEMORY;
    strcpy(f->path, path);
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    f->stream = descriptor >= 0 ? fdopen(descriptor, "a") : NULL;
    if (f->stream == NULL) {
        const int error = errno;
        if (descriptor >= 0) close(descriptor);
        return ft_fail_errno(FT_FAILED, error, path, "cannot write");
    }
    ft_proto event = {0};
    ft_proto_double(&event, 1, seconds_now());
    ft_proto_text(&event, 3, "brain.Event:2");
    const ft_status status = write_record(f, &event);
    ft_proto_free(&event);
    return status == FT_OK ? ft_event_file_flush(f) : status;
}

ft_status ft_event_file_open(const char *directory, bool *follows, ft_event_file **file) {
    ft_arena arena = {0};
    ft_event_file *f = *file = ft_calloc(1, sizeof *f, "an event file");
    ft_status status = f != NULL ? make(directory, follows, &arena, f) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error);
    (void)ft_event_file_close(f);
    ft_error_restore(&error);
    *file = NULL;
    return status;
}

ft_status ft_event_file_close(ft_event_file *f) {
    ft_status status = FT_OK;
    if (f == NULL) return FT_OK;
    if (f->stream != NULL && fclose(f->stream) != 0) status = ft_fail_errno(FT_FAILED, errno, f->path, "cannot write");
    free(f->path);
    free(f);
    return status;
}
