// failmalloc.c - LD_PRELOAD library that counts the heap allocations of a program from the start of main and makes
// chosen ones fail. See README.md.
//
// glibc keeps its allocator reachable as __libc_malloc and so on, so no dlsym is needed for it: dlsym itself allocates
// and would call back into here before it could answer.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

typedef int main_function(int argc, char **argv, char **environment);
typedef void hook(void);
int __libc_start_main(main_function *function, int argc, char **argv, hook *init, hook *fini, hook *rtld_fini,
                      void *stack_end);

static atomic_ulong allocations;
static atomic_bool counting; // from main on, in this process
static unsigned long fail_at, fail_from;
static char count_file[4096];
static pid_t owner;
static main_function *program_main;

// ---- the allocator ------------------------------------------------------------------------------------------------

static bool fails(void) {
    if (!atomic_load_explicit(&counting, memory_order_relaxed)) return false;
    unsigned long n = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    if (n != fail_at && (fail_from == 0 || n < fail_from)) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *memalign(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }

void *realloc(void *old, size_t size) {
    // realloc(p, 0) frees p and may answer NULL: a failure there could not be told from success.
    if (old != NULL && size == 0) return __libc_realloc(old, size);
    return fails() ? NULL : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) return EINVAL;
    int before = errno; // the answer is the return value, errno stays
    void *p = fails() ? NULL : __libc_memalign(alignment, size);
    errno = before;
    if (p == NULL) return ENOMEM;
    *out = p;
    return 0;
}

// ---- start and end ------------------------------------------------------------------------------------------------

static unsigned long number(const char *name) {
    const char *text = getenv(name);
    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

// Before main nothing is counted: what the loader and libraries allocate there differs between machines.
static int counted_main(int argc, char **argv, char **environment) {
    fail_at = number("FAIL_AT");
    fail_from = number("FAIL_FROM");
    const char *path = getenv("COUNT_FILE");
    if (path != NULL && strlen(path) < sizeof count_file) strcpy(count_file, path);
    unsetenv("LD_PRELOAD"); // programs that this one starts are none of our business
    owner = getpid();
    atomic_store(&counting, true);
    return program_main(argc, argv, environment);
}

int __libc_start_main(main_function *function, int argc, char **argv, hook *init, hook *fini, hook *rtld_fini,
                      void *stack_end) {
    void *real = dlsym(RTLD_NEXT, "__libc_start_main");
    __typeof__(&__libc_start_main) start;
    if (real == NULL) abort();
    memcpy(&start, &real, sizeof start);
    program_main = function;
    return start(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

// Runs after the program's atexit handlers, whose allocations count too. System calls only: stdio is gone by now. A
// forked child has inherited everything here, but the count it would write is not the program's.
__attribute__((destructor)) static void write_count(void) {
    if (count_file[0] == '\0' || getpid() != owner) return;
    atomic_store(&counting, false);
    char text[24];
    size_t at = sizeof text;
    text[--at] = '\n';
    for (unsigned long n = atomic_load(&allocations), more = 1; more; n /= 10, more = n)
        text[--at] = (char)('0' + n % 10);
    int fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (write(fd, text + at, sizeof text - at) < 0) unlink(count_file);
    close(fd);
}
