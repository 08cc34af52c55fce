#include "kernels/collectives/shared_memory.h"

#include "base/arena.h"
#include "kernels/collectives/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char where[] = "shared memory";

// A wait spins, then offers its core, then sleeps, as those of the pool do (kernels/cpu/pool.c); asleep it looks about
// so often.
enum { SPIN_NS = 30000, YIELD_NS = 1000000, LOOK_NS = 100000000, REASON_LOOKS = 100, PAUSES_PER_CLOCK = 32 };
enum { STAGE = 256 << 10, MAGIC = 0x46544752 };
enum { POINT_BARRIER = FT_GROUP_POINTS, POINTS };
enum { ABSENT, PRESENT, LEFT };  // a rank
enum { GOES_ON, ENDING, ENDED }; // the group: ENDING while the error is written

// What operation a rank is in, for the others to compare.
typedef struct said {
    int64_t what, count, dtype, root;
} said;

typedef struct member {
    _Alignas(64) _Atomic(uint64_t) point[POINTS];
    _Alignas(64) atomic_uint bell; // rung when a point is raised and somebody sleeps
    atomic_int sleepers;
    _Alignas(64) atomic_int state;
    said said;
    char host[FT_GROUP_HOST];
} member;

typedef struct header {
    uint32_t magic;
    int32_t ranks;
    atomic_int state;
    int32_t failed; // rank
    int32_t grown;  // errno of the last share
    ft_error error;
    char note[FT_SHARED_NOTE];
    member member[FT_GROUP_RANKS];
} header;

typedef struct shared_group {
    ft_group group; // first
    int file;
    header *header;
    char *stage;       // [ranks + 1][STAGE]: what each brings, and a result
    size_t page, next; // where the next shared buffer will lie in the file
    uint64_t barriers;
    bool present; // the others count on it
    bool crowded; // more ranks than cores: who waits awake keeps another from its core
    struct mapping {
        void *base;
        size_t bytes, offset;
    } * mapped;
    size_t mapped_count, mapped_capacity;
} shared_group;

struct ft_shared_watch {
    header *header;
};

static shared_group *of(ft_group *g) { return (shared_group *)g; }
static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }
static size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
static size_t head_bytes(void) { return rounded(sizeof(header), page_bytes()); }
static size_t stage_bytes(int ranks) { return (size_t)(ranks + 1) * STAGE; }

// ---- waiting

static long futex(atomic_uint *word, int operation, unsigned value, const struct timespec *timeout) {
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static void ring(member *m) {
    atomic_fetch_add(&m->bell, 1);
    futex(&m->bell, FUTEX_WAKE, INT32_MAX, NULL);
}

static long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// The first error stays.
static void end_group(header *h, int rank, const ft_error *error) {
    int goes_on = GOES_ON;
    if (!atomic_compare_exchange_strong(&h->state, &goes_on, ENDING)) return;
    h->failed = rank;
    h->error = *error;
    atomic_store(&h->state, ENDED);
    for (int r = 0; r < h->ranks; r++)
        ring(&h->member[r]);
}

// What a rank is told that only learnt of it.
static ft_status tell_end(const shared_group *g) {
    const header *h = g->header;
    // Who ended the group is still writing why; or it is gone.
    for (int i = 0; atomic_load(&h->state) == ENDING && i < REASON_LOOKS; i++)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS / REASON_LOOKS}, NULL);
    if (atomic_load(&h->state) == ENDING) return ft_fail(FT_FAILED, NULL, "another rank has failed");
    if (h->failed == g->group.rank) return ft_error_restore(&h->error), h->error.code;
    const char *host = g->group.host[h->failed]; // "": it was gone before it had said where it is
    return ft_fail(FT_FAILED, NULL, "rank %d%s%s has failed: %s", g->group.number[h->failed], host[0] != '\0' ? " on " : "",
                   host, h->error.message);
}

static ft_status shared_check(ft_group *group) {
    return atomic_load_explicit(&of(group)->header->state, memory_order_relaxed) == GOES_ON ? FT_OK
                                                                                            : tell_end(of(group));
}

static bool is_gone(const shared_group *g, int rank) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    if (rank == g->group.rank || atomic_load(&g->header->member[rank].state) != PRESENT) return false;
    return fcntl(g->file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK &&
           atomic_load(&g->header->member[rank].state) == PRESENT;
}

// A process that was killed says nothing: whoever waits looks for all.
static void look_about(const shared_group *g) {
    for (int r = 0; r < g->group.ranks; r++) {
        if (!is_gone(g, r)) continue;
        ft_error error = {.code = FT_FAILED};
        snprintf(error.message, sizeof error.message, "its process is gone");
        end_group(g->header, r, &error);
    }
}

static ft_status shared_look(ft_group *group) {
    look_about(of(group));
    return shared_check(group);
}

// Asleep until the bell rings, somebody may be gone, or it is time to look again.
static void sleep_at(const shared_group *g, member *m, const _Atomic(uint64_t) *point, uint64_t value) {
    const struct timespec timeout = {.tv_nsec = LOOK_NS};
    atomic_fetch_add(&m->sleepers, 1);
    const unsigned seen = atomic_load(&m->bell);
    // Sequentially consistent on both sides: either the new value is seen here, or the sleeper there.
    if (atomic_load(point) < value && atomic_load(&g->header->state) == GOES_ON && atomic_load(&m->state) != LEFT &&
        futex(&m->bell, FUTEX_WAIT, seen, &timeout) != 0 && errno == ETIMEDOUT)
        look_about(g);
    atomic_fetch_sub(&m->sleepers, 1);
}

static ft_status shared_await(ft_group *group, int rank, int point, uint64_t value) {
    shared_group *g = of(group);
    member *m = &g->header->member[rank];
    const _Atomic(uint64_t) *at = &m->point[point];
    long start = 0;
    for (int pauses = 0; atomic_load_explicit(at, memory_order_acquire) < value;) {
        FT_TRY(shared_check(group));
        if (atomic_load(&m->state) == LEFT && atomic_load(at) < value)
            return ft_fail(FT_FAILED, NULL, "rank %d on %s has left while others wait for it", group->number[rank],
                           group->host[rank]);
        if (!g->crowded && pauses++ < PAUSES_PER_CLOCK) {
            pause_cpu();
            continue;
        }
        pauses = 0;
        const long now = now_ns();
        if (start == 0) start = now;
        if (g->crowded || now - start >= YIELD_NS)
            sleep_at(g, m, at, value);
        else if (now - start > SPIN_NS)
            sched_yield();
    }
    return FT_OK;
}

static void shared_raise(ft_group *group, int point, uint64_t value) {
    member *m = &of(group)->header->member[group->rank];
    atomic_store(&m->point[point], value);
    if (atomic_load(&m->sleepers) > 0) ring(m);
}

static bool shared_has_raised(ft_group *group, int rank, int point, uint64_t value) {
    return atomic_load_explicit(&of(group)->header->member[rank].point[point], memory_order_acquire) >= value;
}

static ft_status shared_barrier(ft_group *group) {
    shared_group *g = of(group);
    shared_raise(group, POINT_BARRIER, ++g->barriers);
    for (int r = 0; r < group->ranks; r++)
        FT_TRY(shared_await(group, r, POINT_BARRIER, g->barriers));
    return FT_OK;
}

static void shared_abort(ft_group *group, const ft_error *error) { end_group(of(group)->header, group->rank, error); }

// ---- operations

enum { OP_ALL_REDUCE = 1, OP_REDUCE_SCATTER, OP_ALL_GATHER, OP_BROADCAST, OP_SHARE };
static const char *const op_names[] = {"?", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "share"};

static const char *op_name(int64_t what) {
    return what >= OP_ALL_REDUCE && what <= OP_SHARE ? op_names[what] : op_names[0];
}

// All say what they are about to do, and read it of the others before any of them goes on.
static ft_status agree(shared_group *g, said mine) {
    header *h = g->header;
    h->member[g->group.rank].said = mine;
    FT_TRY(shared_barrier(&g->group));
    for (int r = 0; r < g->group.ranks; r++) {
        const said *s = &h->member[r].said;
        if (s->what == mine.what && s->count == mine.count && s->dtype == mine.dtype && s->root == mine.root) continue;
        return ft_fail(FT_FAILED, op_name(mine.what),
                       "rank %d calls it with %lld elements, and rank %d calls %s with %lld", g->group.rank,
                       (long long)mine.count, r, op_name(s->what), (long long)s->count);
    }
    return FT_OK;
}

static char *stage_of(const shared_group *g, int rank) { return g->stage + (size_t)rank * STAGE; }

// `count` elements that lie `offset` bytes behind the begin of every stage.
static void sum_stages(const shared_group *g, size_t offset, int64_t count, ft_dtype dtype, char *out) {
    ft_sum_parts(stage_of(g, 0) + offset, STAGE, g->group.ranks, count, dtype, out);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static ft_status shared_all_reduce(ft_group *group, ft_range all) {
    shared_group *g = of(group);
    const size_t size = ft_dtype_size(all.dtype);
    const int64_t piece = (int64_t)(STAGE / size);
    char *data = all.data, *result = stage_of(g, group->ranks);
    FT_TRY(agree(g, (said){OP_ALL_REDUCE, all.count, all.dtype, 0}));
    for (int64_t at = 0; at < all.count; at += piece) {
        const int64_t n = least(piece, all.count - at), first = n * group->rank / group->ranks,
                      last = n * (group->rank + 1) / group->ranks;
        memcpy(stage_of(g, group->rank), data + (size_t)at * size, (size_t)n * size);
        FT_TRY(shared_barrier(group));
        sum_stages(g, (size_t)first * size, last - first, all.dtype, result + (size_t)first * size);
        FT_TRY(shared_barrier(group));
        memcpy(data + (size_t)at * size, result, (size_t)n * size);
    }
    return shared_barrier(group);
}

// Pieces of every part at once.
static ft_status shared_reduce_scatter(ft_group *group, ft_range all) {
    shared_group *g = of(group);
    const size_t size = ft_dtype_size(all.dtype);
    const int64_t part = all.count / group->ranks, piece = (int64_t)(STAGE / size) / group->ranks;
    char *data = all.data;
    FT_TRY(agree(g, (said){OP_REDUCE_SCATTER, all.count, all.dtype, 0}));
    for (int64_t at = 0; at < part; at += piece) {
        const int64_t n = least(piece, part - at);
        for (int r = 0; r < group->ranks; r++)
            memcpy(stage_of(g, group->rank) + (size_t)(r * n) * size, data + (size_t)(r * part + at) * size,
                   (size_t)n * size);
        FT_TRY(shared_barrier(group));
        sum_stages(g, (size_t)(group->rank * n) * size, n, all.dtype, data + (size_t)(group->rank * part + at) * size);
        FT_TRY(shared_barrier(group));
    }
    return shared_barrier(group);
}

static ft_status shared_all_gather(ft_group *group, ft_range all) {
    shared_group *g = of(group);
    const size_t size = ft_dtype_size(all.dtype);
    const int64_t part = all.count / group->ranks, piece = (int64_t)(STAGE / size);
    char *data = all.data;
    FT_TRY(agree(g, (said){OP_ALL_GATHER, all.count, all.dtype, 0}));
    for (int64_t at = 0; at < part; at += piece) {
        const int64_t n = least(piece, part - at);
        memcpy(stage_of(g, group->rank), data + (size_t)(group->rank * part + at) * size, (size_t)n * size);
        FT_TRY(shared_barrier(group));
        for (int r = 0; r < group->ranks; r++)
            if (r != group->rank) memcpy(data + (size_t)(r * part + at) * size, stage_of(g, r), (size_t)n * size);
        FT_TRY(shared_barrier(group));
    }
    return shared_barrier(group);
}

static ft_status shared_broadcast(ft_group *group, int root, ft_range all) {
    shared_group *g = of(group);
    const size_t size = ft_dtype_size(all.dtype);
    const int64_t piece = (int64_t)(STAGE / size);
    char *data = all.data, *stage = stage_of(g, root);
    FT_TRY(agree(g, (said){OP_BROADCAST, all.count, all.dtype, root}));
    for (int64_t at = 0; at < all.count; at += piece) {
        const size_t bytes = (size_t)least(piece, all.count - at) * size;
        if (group->rank == root) memcpy(stage, data + (size_t)at * size, bytes);
        FT_TRY(shared_barrier(group));
        if (group->rank != root) memcpy(data + (size_t)at * size, stage, bytes);
        FT_TRY(shared_barrier(group));
    }
    return shared_barrier(group);
}

// ---- shared buffers
// ------------------------------------------------------------------------------------------------------- In front of
// each a page with the number of ranks that see it.

size_t ft_group_share_bytes(size_t bytes) { return page_bytes() + rounded(bytes, page_bytes()); }

static ft_status remember(shared_group *g, struct mapping m) {
    if (g->mapped_count == g->mapped_capacity) {
        const size_t capacity = g->mapped_capacity ? 2 * g->mapped_capacity : 16;
        struct mapping *grown = ft_realloc(g->mapped, capacity, sizeof *grown, "shared buffers");
        if (grown == NULL) return FT_NO_MEMORY;
        g->mapped = grown;
        g->mapped_capacity = capacity;
    }
    g->mapped[g->mapped_count++] = m;
    return FT_OK;
}

static ft_status shared_share(ft_group *group, size_t bytes, void **data) {
    shared_group *g = of(group);
    const size_t size = ft_group_share_bytes(bytes), offset = g->next;
    FT_TRY(agree(g, (said){OP_SHARE, (int64_t)bytes, FT_U8, 0}));
    if (group->rank == 0) g->header->grown = ftruncate(g->file, (off_t)(offset + size)) == 0 ? 0 : errno;
    FT_TRY(shared_barrier(group));
    if (g->header->grown != 0)
        return ft_fail_errno(FT_NO_MEMORY, g->header->grown, where, "cannot have %zu bytes more", size);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, g->file, (off_t)offset);
    if (base == MAP_FAILED) return ft_fail_errno(FT_NO_MEMORY, errno, where, "cannot map %zu bytes", size);
    FT_TRY(remember(g, (struct mapping){base, size, offset}));
    g->next += size;
    atomic_fetch_add((atomic_int *)base, 1);
    *data = (char *)base + g->page;
    return shared_barrier(group); // nobody leaves before all are there
}

static void unmap(shared_group *g, size_t i) {
    const struct mapping m = g->mapped[i];
    g->mapped[i] = g->mapped[--g->mapped_count];
    const bool last = atomic_fetch_sub((atomic_int *)m.base, 1) == 1;
    munmap(m.base, m.bytes);
    if (last) (void)fallocate(g->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)m.offset, (off_t)m.bytes);
}

static void shared_unshare(ft_group *group, void *data, size_t bytes) {
    shared_group *g = of(group);
    for (size_t i = 0; i < g->mapped_count; i++)
        if ((char *)g->mapped[i].base + g->page == data) return unmap(g, i);
}

// ---- coming and going

static void shared_close(ft_group *group) {
    shared_group *g = of(group);
    while (g->mapped_count > 0)
        unmap(g, g->mapped_count - 1);
    if (g->present) {
        member *m = &g->header->member[group->rank];
        atomic_store(&m->state, LEFT);
        ring(m);
    }
    if (g->header != NULL) munmap(g->header, head_bytes() + stage_bytes(group->ranks));
    if (g->file >= 0) close(g->file);
    free(g->mapped);
    free(g);
}

static const ft_group_functions functions = {
    .all_reduce = shared_all_reduce,
    .reduce_scatter = shared_reduce_scatter,
    .all_gather = shared_all_gather,
    .broadcast = shared_broadcast,
    .barrier = shared_barrier,
    .share = shared_share,
    .unshare = shared_unshare,
    .raise = shared_raise,
    .await = shared_await,
    .has_raised = shared_has_raised,
    .check = shared_check,
    .look = shared_look,
    .abort = shared_abort,
    .close = shared_close,
};

ft_status ft_shared_group_create(int ranks, int *file) {
    if (ranks < 1 || ranks > FT_GROUP_RANKS)
        return ft_fail(FT_INVALID, "ranks", "must be 1 to %d, got %d", FT_GROUP_RANKS, ranks);
    *file = (int)syscall(SYS_memfd_create, "ftengine ranks", 0U);
    if (*file < 0) return ft_fail_errno(FT_FAILED, errno, where, "cannot make memory for %d ranks", ranks);
    const size_t bytes = head_bytes() + stage_bytes(ranks);
    header *h = ftruncate(*file, (off_t)bytes) == 0
                    ? mmap(NULL, head_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0)
                    : MAP_FAILED;
    if (h == MAP_FAILED) {
        const ft_status status = ft_fail_errno(FT_NO_MEMORY, errno, where, "cannot map %zu bytes", bytes);
        close(*file);
        *file = -1;
        return status;
    }
    h->ranks = ranks;
    h->magic = MAGIC;
    munmap(h, head_bytes());
    return FT_OK;
}

// Maps the head, and `more` bytes behind it. *ranks: as many as it was made for.
static ft_status map_head(int file, size_t more, header **h) {
    struct stat s;
    const size_t bytes = head_bytes() + more;
    if (fstat(file, &s) != 0 || (size_t)s.st_size < bytes)
        return ft_fail(FT_INVALID, where, "descriptor %d is no memory of ranks", file);
    *h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (*h == MAP_FAILED) return *h = NULL, ft_fail_errno(FT_NO_MEMORY, errno, where, "cannot map %zu bytes", bytes);
    if ((*h)->magic == MAGIC) return FT_OK;
    munmap(*h, bytes);
    *h = NULL;
    return ft_fail(FT_INVALID, where, "descriptor %d is no memory of ranks", file);
}

static ft_status join(shared_group *g) {
    ft_group *group = &g->group;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = group->rank, .l_len = 1};
    FT_TRY(map_head(g->file, stage_bytes(group->ranks), &g->header));
    header *h = g->header;
    if (h->ranks != group->ranks)
        return ft_fail(FT_INVALID, where, "it was made for %d ranks, not for %d", (int)h->ranks, group->ranks);
    member *m = &h->member[group->rank];
    if (fcntl(g->file, F_SETLK, &lock) != 0)
        return ft_fail_errno(FT_FAILED, errno, where, "rank %d is there already", group->rank);
    if (gethostname(m->host, sizeof m->host - 1) != 0) snprintf(m->host, sizeof m->host, "?");
    g->stage = (char *)h + head_bytes();
    g->next = head_bytes() + stage_bytes(group->ranks);
    atomic_store(&m->state, PRESENT);
    g->present = true;
    FT_TRY(shared_barrier(group));
    for (int r = 0; r < group->ranks; r++)
        memcpy(group->host[r], h->member[r].host, FT_GROUP_HOST);
    return FT_OK;
}

ft_status ft_shared_group_join(int file, int rank, int ranks, ft_group **group) {
    *group = NULL;
    if (ranks < 1 || ranks > FT_GROUP_RANKS || rank < 0 || rank >= ranks)
        return ft_fail(FT_INVALID, where, "there is no rank %d of %d", rank, ranks);
    shared_group *g = ft_calloc(1, sizeof *g, "a group of ranks");
    if (g == NULL) return FT_NO_MEMORY;
    g->group = (ft_group){.rank = rank, .ranks = ranks, .backend = where, .ordered = true, .functions = &functions};
    for (int r = 0; r < ranks; r++)
        g->group.number[r] = g->group.at[r] = r;
    g->file = file;
    g->page = page_bytes();
    g->crowded = ranks > sysconf(_SC_NPROCESSORS_ONLN);
    const ft_status status = join(g);
    if (status != FT_OK) {
        shared_close(&g->group);
        return status;
    }
    (void)fcntl(file, F_SETFD, FD_CLOEXEC); // what this rank starts is none
    *group = &g->group;
    return FT_OK;
}

ft_status ft_shared_group_note(ft_group *group, const char *text) {
    header *h = of(group)->header;
    if (strlen(text) >= sizeof h->note)
        return ft_fail(FT_FAILED, where, "a note of %zu bytes is too long", strlen(text));
    strcpy(h->note, text);
    return FT_OK;
}

// ---- watching

ft_status ft_shared_watch_open(int file, ft_shared_watch **watch) {
    *watch = ft_calloc(1, sizeof **watch, "who watches ranks");
    if (*watch == NULL) return FT_NO_MEMORY;
    const ft_status status = map_head(file, 0, &(*watch)->header);
    if (status == FT_OK) return FT_OK;
    free(*watch);
    *watch = NULL;
    return status;
}

void ft_shared_watch_close(ft_shared_watch *watch) {
    if (watch == NULL) return;
    munmap(watch->header, head_bytes());
    free(watch);
}

bool ft_shared_watch_failure(const ft_shared_watch *watch, int *rank, ft_error *error) {
    if (atomic_load(&watch->header->state) != ENDED) return false;
    *rank = watch->header->failed;
    *error = watch->header->error;
    return true;
}

const char *ft_shared_watch_note(const ft_shared_watch *watch) { return watch->header->note; }

void ft_shared_watch_abort(ft_shared_watch *watch, int rank, const ft_error *error) {
    end_group(watch->header, rank, error);
}
