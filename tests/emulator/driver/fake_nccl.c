// fake_nccl.c - a libnccl.so.2 on the fake driver. Ranks are processes of one machine that share a file in memory; an
// operation is work of the stream it is queued on, runs when the fake driver lets it, and waits for the others' as
// NCCL's kernels do. It is stricter than the real one: all ranks have to call the same operations in the same order
// with the same count, type and operation, and the same ones between a group's start and its end; what an operation writes is poisoned when its turn comes and before the
// others' have, so that whoever reads it without waiting reads NaN; buffers have to be the device's. A rank that is
// killed or gives up makes the operations of the others end with an error, which real ones do not do by themselves.
#include "tests/emulator/driver/fake_nccl.h"

#include "kernels/collectives/nccl/nccl.h"
#include "kernels/half.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/emulator/driver/fake_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 16, STAGE = 64 << 10, CHANNEL_BYTES = 12 << 20, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { ALL_REDUCE = 1, REDUCE_SCATTER, ALL_GATHER, BROADCAST };

typedef struct said {
    int64_t what, count, type, root;
    int64_t together, at; // with how many others it was asked for at once, and which of them it is
} said;

typedef struct member {
    atomic_int pid; // 0: not there yet
    atomic_bool left;
    atomic_ulong steps; // that it has come to, of all that ranks wait for each other at
    said said;
} member;

typedef struct shared {
    atomic_int joined;
    member member[RANKS];
    char stage[RANKS][STAGE];
} shared;

struct ft_nccl_comm_object {
    int rank, ranks;
    shared *shared;
    uint64_t operations, queued, busy;
    atomic_ulong steps;
    atomic_int error;
    bool finalized;
    ft_cu_address memory;
    size_t bytes;
    char name[64];
    ft_nccl_comm next; // that was aborted before
};

static fake_nccl_settings set;
static fake_nccl_books books;
static ft_nccl_comm aborted; // streams may still hold jobs of theirs, which find their error

void fake_nccl_set(const fake_nccl_settings *settings) { set = *settings; }

// FAKE_NCCL="rank=1,die_at=20": of that rank, or of all.
static void set_up(int rank) {
    fake_nccl_settings s = {0};
    uint64_t drawn = 0, of = (uint64_t)rank;
    const struct {
        const char *name;
        uint64_t *value;
    } fields[] = {{"rank=", &of},         {"drawn=", &drawn},       {"seed=", &s.seed}, {"late=", &s.late},
                  {"die_at=", &s.die_at}, {"fail_at=", &s.fail_at}, {"busy=", &s.busy}};
    const char *text = getenv("FAKE_NCCL");
    if (text == NULL) return;
    while (*text != '\0') {
        size_t i = 0;
        while (i < sizeof fields / sizeof *fields && strncmp(text, fields[i].name, strlen(fields[i].name)) != 0)
            i++;
        if (i == sizeof fields / sizeof *fields) fprintf(stderr, "FAKE_NCCL has a name that is not known\n"), abort();
        char *end;
        *fields[i].value = strtoull(text + strlen(fields[i].name), &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    s.drawn = drawn != 0;
    if (of == (uint64_t)rank) set = s;
}

// As that of emulated_module.c.
__attribute__((destructor)) static void report(void) {
    const char *path = getenv("FAKE_REPORT");
    FILE *file = path != NULL && books.operations > 0 ? fopen(path, "a") : NULL;
    if (file == NULL) return;
    fprintf(file, "nccl %llu misuses, %llu left\n", (unsigned long long)books.misuses,
            (unsigned long long)books.communicators);
    fprintf(file, "%llu operations, %llu communicators aborted, %llu bytes summed\n",
            (unsigned long long)books.operations, (unsigned long long)books.aborted,
            (unsigned long long)books.summed);
    fclose(file);
}

fake_nccl_books fake_nccl_read(void) { return books; }

static int misuse(ft_nccl_comm comm, const char *what) {
    fprintf(stderr, "fake NCCL: rank %d: %s\n", comm != NULL ? comm->rank : -1, what);
    books.misuses++;
    return INVALID_USAGE;
}

static void rest(long ns) {
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

// ---- ranks and each other

static bool is_gone(ft_nccl_comm c, int rank) {
    member *m = &c->shared->member[rank];
    const int pid = atomic_load(&m->pid);
    if (atomic_load(&m->left)) return true;
    if (pid == 0 || kill(pid, 0) == 0) { // a zombie is none any more
        char path[32], line[256] = "";
        if (pid == 0) return false;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *stat = fopen(path, "r");
        if (stat != NULL && fgets(line, sizeof line, stat) == NULL) line[0] = '\0';
        if (stat != NULL) fclose(stat);
        const char *state = strrchr(line, ')');
        return state != NULL && (state[2] == 'Z' || state[2] == 'X');
    }
    return errno == ESRCH;
}

// Until all have come so far. False: one is gone, or this rank's communicator has failed.
static bool meet(ft_nccl_comm c) {
    const uint64_t step = atomic_fetch_add(&c->steps, 1) + 1;
    atomic_store(&c->shared->member[c->rank].steps, step);
    for (int r = 0; r < c->ranks; r++)
        for (long spins = 0; atomic_load(&c->shared->member[r].steps) < step; spins++) {
            if (atomic_load(&c->error) != 0) return false;
            if (spins % 64 == 0 && is_gone(c, r) && atomic_load(&c->shared->member[r].steps) < step) {
                atomic_store(&c->error, FT_NCCL_REMOTE_ERROR);
                return false;
            }
            rest(20000);
        }
    return true;
}

// ---- operations

typedef struct job {
    ft_nccl_comm comm;
    said said;
    const char *from;
    char *to;
    uint64_t number; // of the communicator's operations
    size_t size;
    ft_cu_stream stream;
    struct job *next; // that was asked for with it
} job;

// Between ncclGroupStart and ncclGroupEnd.
static struct {
    bool open;
    job *first, *last;
    int count;
} together;

static double number_at(const char *at, int type) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    switch (type) {
    case FT_NCCL_F32: return *(const float *)at;
    case FT_NCCL_F64: return *(const double *)at;
    case FT_NCCL_I32: return *(const int32_t *)at;
    case FT_NCCL_BF16: return ft_from_bf16(half);
    case FT_NCCL_F16: return ft_from_fp16(half);
    default: return *(const unsigned char *)at;
    }
}

// The sum of one element, of fp32 in fp32, rounded at every step as the real one is.
static void put_sum(char *out, int type, int ranks, const int *order, const char *const *at) {
    if (type == FT_NCCL_F64 || type == FT_NCCL_I32) {
        double sum = 0;
        for (int i = 0; i < ranks; i++)
            sum += number_at(at[order[i]], type);
        if (type == FT_NCCL_F64)
            memcpy(out, &sum, sizeof sum);
        else
            memcpy(out, &(int32_t){(int32_t)sum}, sizeof(int32_t));
        return;
    }
    if (type == FT_NCCL_I64 || type == FT_NCCL_U8) {
        uint64_t sum = 0, one = 0;
        const size_t size = type == FT_NCCL_I64 ? sizeof one : 1;
        for (int i = 0; i < ranks; i++)
            memcpy(&one, at[i], size), sum += one;
        memcpy(out, &sum, size); // little endian, as all that this runs on
        return;
    }
    float sum = (float)number_at(at[order[0]], type);
    for (int i = 1; i < ranks; i++) {
        sum += (float)number_at(at[order[i]], type);
        if (type == FT_NCCL_BF16) sum = ft_from_bf16(ft_to_bf16(sum));
        if (type == FT_NCCL_F16) sum = ft_from_fp16(ft_to_fp16(sum));
    }
    if (type == FT_NCCL_F32)
        memcpy(out, &sum, sizeof sum);
    else
        memcpy(out, &(uint16_t){type == FT_NCCL_BF16 ? ft_to_bf16(sum) : ft_to_fp16(sum)}, sizeof(uint16_t));
}

static void draw_order(uint64_t number, int ranks, int *order) {
    uint64_t state = set.seed * 0x9E3779B97F4A7C15u + number * 0xBF58476D1CE4E5B9u + 1;
    for (int i = 0; i < ranks; i++)
        order[i] = i;
    for (int i = ranks - 1; set.drawn && i > 0; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const int j = (int)(state % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
}

static bool same_everywhere(const job *j) {
    for (int r = 0; r < j->comm->ranks; r++)
        if (memcmp(&j->comm->shared->member[r].said, &j->said, sizeof j->said) != 0) return false;
    return true;
}

// Pieces of what every rank sends go through its stage. Elements [0, count) are those of one rank's part; parts > 1:
// each rank sends so many.
static bool exchange(const job *j, char *sent, size_t count, int parts) {
    ft_nccl_comm c = j->comm;
    const size_t piece = STAGE / j->size / (size_t)parts;
    int order[RANKS];
    draw_order(j->number, c->ranks, order);
    for (size_t at = 0; at < count; at += piece) {
        const size_t n = count - at < piece ? count - at : piece;
        for (int p = 0; p < parts; p++)
            memcpy(c->shared->stage[c->rank] + (size_t)p * n * j->size, sent + ((size_t)p * count + at) * j->size,
                   n * j->size);
        if (!meet(c)) return false;
        char *to = j->to + at * j->size;
        if (j->said.what == BROADCAST) memcpy(to, c->shared->stage[j->said.root], n * j->size);
        for (int r = 0; j->said.what == ALL_GATHER && r < c->ranks; r++)
            memcpy(to + (size_t)r * count * j->size, c->shared->stage[r], n * j->size);
        const size_t mine = j->said.what == REDUCE_SCATTER ? (size_t)c->rank * n : 0;
        for (size_t i = 0; (j->said.what == ALL_REDUCE || j->said.what == REDUCE_SCATTER) && i < n; i++) {
            const char *from[RANKS];
            for (int r = 0; r < c->ranks; r++)
                from[r] = c->shared->stage[r] + (mine + i) * j->size;
            put_sum(to + i * j->size, (int)j->said.type, c->ranks, order, from);
        }
        if (!meet(c)) return false;
    }
    return true;
}

static bool run(void *context) {
    job *j = context;
    ft_nccl_comm c = j->comm;
    const int parts = j->said.what == REDUCE_SCATTER ? c->ranks : 1;
    const size_t count = (size_t)j->said.count, sent_bytes = count * j->size * (size_t)parts;
    if (atomic_load(&c->error) != 0) return true; // given up: nothing is written
    books.operations++;
    c->operations++;
    if (c->operations == set.die_at) raise(SIGKILL);
    if (c->operations == set.fail_at) return atomic_store(&c->error, FT_NCCL_REMOTE_ERROR), true;
    if (set.late > 0) rest((long)set.late * 1000000);
    char *sent = malloc(sent_bytes + 1);
    if (sent == NULL) abort();
    memcpy(sent, j->from, sent_bytes);
    memset(j->to, 0xff,
           count * j->size * (size_t)(j->said.what == ALL_GATHER ? c->ranks : 1)); // of every type a NaN, or -1
    if (j->said.what == REDUCE_SCATTER)
        memset((char *)(uintptr_t)j->from, 0xff, sent_bytes); // in place, and all but a part is undefined
    c->shared->member[c->rank].said = j->said;
    bool fine = meet(c);
    if (fine && !same_everywhere(j)) {
        (void)misuse(c, "ranks call different operations");
        atomic_store(&c->error, INVALID_USAGE);
        fine = false;
    }
    if (fine) (void)(count > 0 ? exchange(j, sent, count, parts) : meet(c)); // all have compared
    free(sent);
    return true;
}

static size_t size_of(int type) {
    switch (type) {
    case FT_NCCL_U8: return 1;
    case FT_NCCL_F16:
    case FT_NCCL_BF16: return 2;
    case FT_NCCL_I32:
    case FT_NCCL_F32: return 4;
    case FT_NCCL_I64:
    case FT_NCCL_F64: return 8;
    default: return 0;
    }
}

static bool is_of_device(const void *data, size_t bytes) {
    uint64_t begin, end;
    return bytes == 0 ||
           (fake_allocation((uint64_t)(uintptr_t)data, &begin, &end) && (uint64_t)(uintptr_t)data + bytes <= end);
}

static int start(job *j) {
    ft_nccl_comm comm = j->comm;
    j->number = ++comm->queued;
    if (j->said.what == ALL_REDUCE) books.summed += (uint64_t)j->said.count * j->size;
    if (fake_launch(j->stream, run, free, j) != 0) return FT_NCCL_CUDA_ERROR;
    comm->busy = set.busy;
    return comm->busy > 0 ? FT_NCCL_IN_PROGRESS : FT_NCCL_SUCCESS;
}

static int keep(job *j) {
    if (together.last != NULL)
        together.last->next = j;
    else
        together.first = j;
    together.last = j;
    j->said.at = together.count++;
    return FT_NCCL_SUCCESS;
}

static int queue(ft_nccl_comm comm, said what, const void *from, void *to, ft_cu_stream stream) {
    const size_t size = size_of((int)what.type), bytes = (size_t)what.count * size,
                 all = bytes * (size_t)(comm != NULL ? comm->ranks : 1);
    if (comm == NULL || comm->finalized) return misuse(comm, "an operation without a communicator");
    if (size == 0 || what.root < 0 || what.root >= comm->ranks)
        return misuse(comm, "no such type or root"), INVALID_ARGUMENT;
    const char *const mine = what.what == REDUCE_SCATTER ? (const char *)from + (size_t)comm->rank * bytes : from;
    const char *const own = what.what == ALL_GATHER ? (const char *)to + (size_t)comm->rank * bytes : to;
    if (mine != own) return misuse(comm, "not in place");
    if (!is_of_device(what.what == ALL_GATHER ? to : from,
                      what.what == REDUCE_SCATTER || what.what == ALL_GATHER ? all : bytes))
        return misuse(comm, "what is summed is not the device's");
    if (atomic_load(&comm->error) != 0) return atomic_load(&comm->error);
    job *j = calloc(1, sizeof *j);
    if (j == NULL) abort();
    *j = (job){.comm = comm, .said = what, .from = from, .to = to, .size = size, .stream = stream};
    return together.open ? keep(j) : start(j);
}

// ---- the library's functions

#define FT_NCCL_CALL(field, symbol, parameters) int symbol parameters;
#include "kernels/collectives/nccl/nccl.def"
#undef FT_NCCL_CALL
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(ft_nccl_comm comm);

int ncclGetVersion(int *version) { return *version = 23203, FT_NCCL_SUCCESS; }
const char *ncclGetErrorString(int result) {
    return result == FT_NCCL_REMOTE_ERROR ? "remote process exited or there was a network error" : "some error";
}
const char *ncclGetLastError(ft_nccl_comm comm) { return ""; }

int ncclGetUniqueId(ft_nccl_id *id) {
    static int number;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "/ft-fake-nccl-%d-%d", (int)getpid(), ++number);
    const int file = shm_open(id->bytes, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, sizeof(shared)) != 0) return INVALID_ARGUMENT;
    close(file);
    return FT_NCCL_SUCCESS;
}

static bool is_variable(const char *name, const char *value) {
    const char *found = getenv(name);
    return found != NULL && strcmp(found, value) == 0;
}

static bool good_config(const ft_nccl_config *c) {
    char channels[12];
    snprintf(channels, sizeof channels, "%d", c->most_ctas);
    return c->size == sizeof *c && c->magic == FT_NCCL_CONFIG_MAGIC && c->version == FT_NCCL_CONFIG_VERSION &&
           c->blocking == 0 && c->cga_cluster_size == INT_MIN && c->least_ctas == c->most_ctas && c->most_ctas > 0 &&
           c->network == NULL && c->split_share == INT_MIN && is_variable("NCCL_ALGO", "Ring") &&
           is_variable("NCCL_PROTO", "Simple") && is_variable("NCCL_NVLS_ENABLE", "0") &&
           is_variable("NCCL_MIN_CTAS", channels) && is_variable("NCCL_MAX_CTAS", channels);
}

static void forget(ft_nccl_comm comm) {
    atomic_store(&comm->shared->member[comm->rank].left, true);
    munmap(comm->shared, sizeof *comm->shared);
    if (comm->memory != 0) (void)cuMemFree_v2(comm->memory);
    books.bytes -= comm->bytes;
    books.communicators--;
}

int ncclCommInitRankConfig(ft_nccl_comm *comm, int ranks, ft_nccl_id id, int rank, ft_nccl_config *config) {
    set_up(rank);
    if (ranks > RANKS || rank < 0 || rank >= ranks || !good_config(config))
        return misuse(NULL, "a configuration that was not pinned");
    ft_nccl_comm c = calloc(1, sizeof *c);
    const int file = shm_open(id.bytes, O_RDWR, 0);
    if (c == NULL || file < 0) return free(c), INVALID_ARGUMENT;
    c->shared = mmap(NULL, sizeof *c->shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (c->shared == MAP_FAILED) return free(c), INVALID_ARGUMENT;
    c->rank = rank, c->ranks = ranks, c->busy = set.busy;
    snprintf(c->name, sizeof c->name, "%.60s", id.bytes);
    books.communicators++;
    c->bytes = (size_t)config->most_ctas * CHANNEL_BYTES;
    books.bytes += c->bytes;
    if (cuMemAlloc_v2(&c->memory, c->bytes) != 0) return c->memory = 0, forget(c), FT_NCCL_CUDA_ERROR;
    atomic_store(&c->shared->member[rank].pid, (int)getpid());
    if (atomic_fetch_add(&c->shared->joined, 1) + 1 == ranks) shm_unlink(c->name);
    *comm = c;
    return FT_NCCL_IN_PROGRESS; // until all have joined
}

int ncclCommGetAsyncError(ft_nccl_comm comm, int *result) {
    *result = atomic_load(&comm->error);
    if (*result != 0) return FT_NCCL_SUCCESS;
    if (comm->busy > 0) return comm->busy--, *result = FT_NCCL_IN_PROGRESS, FT_NCCL_SUCCESS;
    if (atomic_load(&comm->shared->joined) < comm->ranks) *result = FT_NCCL_IN_PROGRESS;
    return FT_NCCL_SUCCESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, ft_nccl_comm comm, ft_cu_stream stream) {
    if (op != FT_NCCL_SUM) return misuse(comm, "no sum");
    return queue(comm, (said){.what = ALL_REDUCE, .count = (int64_t)count, .type = type}, from, to, stream);
}

int ncclGroupStart(void) {
    if (together.open) return misuse(NULL, "a group inside another");
    together.open = true;
    return FT_NCCL_SUCCESS;
}

int ncclGroupEnd(void) {
    int result = FT_NCCL_SUCCESS;
    if (!together.open) return misuse(NULL, "the end of no group");
    for (job *j = together.first, *next; j != NULL; j = next) {
        next = j->next;
        j->said.together = together.count;
        const int of_this = start(j);
        if (result == FT_NCCL_SUCCESS || result == FT_NCCL_IN_PROGRESS) result = of_this;
    }
    together.open = false;
    together.first = together.last = NULL;
    together.count = 0;
    return result;
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, ft_nccl_comm comm,
                      ft_cu_stream stream) {
    if (op != FT_NCCL_SUM) return misuse(comm, "no sum");
    return queue(comm, (said){.what = REDUCE_SCATTER, .count = (int64_t)count, .type = type}, from, to, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, ft_nccl_comm comm, ft_cu_stream stream) {
    return queue(comm, (said){.what = ALL_GATHER, .count = (int64_t)count, .type = type}, from, to, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ft_nccl_comm comm,
                  ft_cu_stream stream) {
    return queue(comm, (said){.what = BROADCAST, .count = (int64_t)count, .type = type, .root = root}, from, to, stream);
}

int ncclCommAbort(ft_nccl_comm comm) {
    books.aborted++;
    if (atomic_load(&comm->error) == 0) atomic_store(&comm->error, FT_NCCL_REMOTE_ERROR);
    if (atomic_load(&comm->shared->joined) < comm->ranks) shm_unlink(comm->name);
    forget(comm);
    comm->next = aborted;
    aborted = comm;
    return FT_NCCL_SUCCESS;
}

int ncclCommFinalize(ft_nccl_comm comm) {
    if (comm->finalized) return misuse(comm, "finalized twice");
    comm->finalized = true;
    comm->busy = set.busy;
    return comm->busy > 0 ? FT_NCCL_IN_PROGRESS : FT_NCCL_SUCCESS;
}

int ncclCommDestroy(ft_nccl_comm comm) {
    if (!comm->finalized) (void)misuse(comm, "destroyed without an end");
    forget(comm);
    free(comm);
    return FT_NCCL_SUCCESS;
}
