// Files and directories that are written whole or not at all: full disks, limits, kills, leftovers, several writers.
// ctest: asan_part=0
#include "base/files.h"
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[64];
static ft_arena arena;

#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

static char *at(const char *name) { return ft_path_join(&arena, scratch, name); }

static int set_up(void **state) {
    strcpy(scratch, "/tmp/test_files_XXXXXX");
    return mkdtemp(scratch) != NULL ? 0 : -1;
}

static int tear_down(void **state) {
    ft_status status = ft_remove_tree(scratch);
    ft_arena_free(&arena);
    return status == FT_OK ? 0 : -1;
}

static void assert_content(const char *path, const char *wanted) {
    char *data;
    size_t length;
    OK(ft_read_file(path, 0, &data, &length));
    assert_int_equal(length, strlen(wanted));
    assert_string_equal(data, wanted);
    free(data);
}

// How many entries of the directory have a name that begins with a dot: temporaries.
static int count_hidden(const char *path) {
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) n++;
    closedir(d);
    return n;
}

static void assert_failed(ft_status status, ft_status wanted, const char *where, const char *text) {
    assert_int_equal(status, wanted);
    assert_string_equal(ft_error_where(), where);
    if (strstr(ft_error_message(), text) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), text);
}

// ---- reading ------------------------------------------------------------------------------------------------------

static void test_read(void **state) {
    char *data, big[100000];
    size_t length;
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7);
    OK(ft_atomic_write(at("big"), big, sizeof big));
    OK(ft_read_file(at("big"), sizeof big, &data, &length));
    assert_int_equal(length, sizeof big);
    assert_memory_equal(data, big, sizeof big);
    assert_int_equal(data[length], 0);
    free(data);
    assert_failed(ft_read_file(at("big"), sizeof big - 1, &data, &length), FT_INVALID, at("big"), "100000 bytes");
    assert_null(data);
    OK(ft_atomic_write(at("empty"), NULL, 0));
    assert_content(at("empty"), "");
    assert_failed(ft_read_file(at("none"), 0, &data, &length), FT_INVALID, at("none"), "No such file");
    assert_failed(ft_read_file(scratch, 0, &data, &length), FT_INVALID, scratch, "directory");
    assert_failed(ft_read_stream("/dev/zero", 70000, &data, &length), FT_INVALID, "/dev/zero", "70000");
    assert_failed(ft_read_file("/dev/zero", 70000, &data, &length), FT_INVALID, "/dev/zero", "this is a device");
    OK(ft_read_file("/proc/self/status", 0, &data, &length)); // of size 0, it says
    assert_true(length > 100);
    free(data);
}

static void test_read_pipe(void **state) {
    enum { LENGTH = 300000 };
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    char *none;
    size_t nothing;
    assert_failed(ft_read_file(at("pipe"), 0, &none, &nothing), FT_INVALID, at("pipe"), "this is a pipe"); // nor waits for a writer
    pid_t child = fork();
    if (child == 0) {
        FILE *out = fopen(at("pipe"), "w");
        for (int i = 0; i < LENGTH; i++)
            putc('x', out);
        _exit(fclose(out));
    }
    char *data;
    size_t length;
    OK(ft_read_stream(at("pipe"), 0, &data, &length));
    assert_int_equal(length, LENGTH);
    free(data);
    waitpid(child, NULL, 0);
}

// ---- atomic files -------------------------------------------------------------------------------------------------

static void test_old_stays_until_commit(void **state) {
    OK(ft_atomic_write(at("f"), "old", 3));
    assert_int_equal(chmod(at("f"), 0640), 0);
    ft_atomic_file file;
    OK(ft_atomic_open(&file, at("f")));
    fputs("new", file.stream);
    fflush(file.stream);
    assert_content(at("f"), "old");
    OK(ft_atomic_commit(&file));
    assert_content(at("f"), "new");
    struct stat st;
    assert_int_equal(stat(at("f"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_null(file.stream);
    ft_atomic_abort(&file); // finished ones are fine
    OK(ft_atomic_open(&file, at("f")));
    fputs("never", file.stream);
    ft_atomic_abort(&file);
    ft_atomic_abort(&file);
    assert_content(at("f"), "new");
    assert_int_equal(count_hidden(scratch), 0);
    ft_atomic_file nothing = {0};
    ft_atomic_abort(&nothing);
    assert_int_equal(ft_atomic_commit(&nothing), FT_FAILED);
}

static void test_links_are_followed(void **state) {
    OK(ft_make_directories(at("real")));
    OK(ft_atomic_write(at("real/f"), "old", 3));
    assert_int_equal(symlink("real/f", at("link")), 0);
    OK(ft_atomic_write(at("link"), "new", 3));
    assert_content(at("real/f"), "new");
    struct stat st;
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void test_bad_targets(void **state) {
    ft_atomic_file file;
    assert_failed(ft_atomic_open(&file, scratch), FT_INVALID, scratch, "directory");
    assert_failed(ft_atomic_open(&file, at("no/such/f")), FT_FAILED, at("no/such/f"), "No such file");
    assert_int_equal(ft_atomic_open(&file, ""), FT_INVALID);
    OK(ft_atomic_write(at("f"), "x", 1));
    assert_failed(ft_atomic_open(&file, at("f/g")), FT_FAILED, at("f/g"), "Not a directory");
    ft_atomic_dir dir;
    assert_failed(ft_atomic_dir_open(&dir, at("f")), FT_INVALID, at("f"), "this is a file");
    assert_failed(ft_make_directories(at("f/g/h")), FT_FAILED, at("f"), "File exists");
    assert_failed(ft_copy_file(at("none"), at("g")), FT_INVALID, at("none"), "No such file");
    assert_false(ft_path_exists(at("g")));
}

// `test` in a child, for what cannot be undone: 0 is success, 77 that the machine does not allow the test.
static void in_child(int (*test)(void)) {
    pid_t child = fork();
    if (child == 0) _exit(test());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool message_has(const char *path, const char *text) {
    return strcmp(ft_error_where(), path) == 0 && strstr(ft_error_message(), text) != NULL;
}

static int as_nobody(void) { // root may write everywhere
    if (getuid() == 0 && setuid(65534) != 0) return 77;
    if (ft_atomic_write(at("f"), "new", 3) != FT_FAILED || !message_has(at("f"), "Permission denied")) return 1;
    if (ft_error_hint_count() != 1) return 2;
    ft_atomic_dir dir;
    if (ft_atomic_dir_open(&dir, at("d")) != FT_FAILED || !message_has(at("d"), "Permission denied")) return 3;
    if (ft_make_directories(at("e/f")) != FT_INVALID || !message_has(at("e"), "Permission denied")) return 4;
    char *data;
    size_t length;
    if (ft_read_file(at("f"), 0, &data, &length) != FT_INVALID || !message_has(at("f"), "Permission denied")) return 5;
    return ft_remove_tree(at("f")) == FT_FAILED && message_has(at("f"), "Permission denied") ? 0 : 6;
}

static void test_unwritable_directory(void **state) {
    OK(ft_atomic_write(at("f"), "old", 3));
    assert_int_equal(chmod(at("f"), 0), 0);
    assert_int_equal(chmod(scratch, 0555), 0);
    in_child(as_nobody);
    assert_int_equal(chmod(scratch, 0755), 0);
    assert_int_equal(chmod(at("f"), 0600), 0);
    assert_content(at("f"), "old");
}

// ---- full disks ---------------------------------------------------------------------------------------------------

static void test_full_device(void **state) {
    assert_failed(ft_atomic_write("/dev/full", "abc", 3), FT_FAILED, "/dev/full", "No space left");
    OK(ft_atomic_write("/dev/null", "abc", 3));
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode)); // written to, not replaced
}

// A limit on the size of files stands for a full disk where nobody may mount one.
static int with_small_files(void) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {10000, 10000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
    static char big[100000];
    if (ft_atomic_write(at("f"), big, sizeof big) != FT_FAILED || !message_has(at("f"), "File too large")) return 1;
    ft_atomic_file file;
    if (ft_atomic_open(&file, at("f")) != FT_OK) return 2;
    for (int i = 0; i < 100000; i++)
        putc('x', file.stream); // a caller who does not look
    if (ft_atomic_commit(&file) != FT_FAILED || !message_has(at("f"), "File too large")) return 3;
    if (ft_copy_file("/proc/self/exe", at("f")) != FT_FAILED || !message_has(at("f"), "File too large")) return 4;
    return 0;
}

static void test_file_limit(void **state) {
    OK(ft_atomic_write(at("f"), "old", 3));
    in_child(with_small_files);
    assert_content(at("f"), "old");
    assert_int_equal(count_hidden(scratch), 0);
}

static int on_full_disk(void) {
    static char big[1 << 20];
    if (ft_atomic_write(at("disk/f"), big, sizeof big) != FT_FAILED) return 1;
    if (!message_has(at("disk/f"), "No space left") || ft_error_hint_count() != 1) return 2;
    ft_atomic_dir dir;
    if (ft_atomic_dir_open(&dir, at("disk/d")) != FT_OK) return 3;
    if (ft_atomic_write(ft_path_join(&arena, dir.temporary, "f"), big, sizeof big) != FT_FAILED) return 4;
    ft_atomic_dir_abort(&dir);
    return count_hidden(at("disk"));
}

static void test_full_disk(void **state) {
    OK(ft_make_directories(at("disk/d")));
    if (mount("none", at("disk"), "tmpfs", 0, "size=256k") != 0) skip(); // needs root; test_file_limit does not
    OK(ft_make_directories(at("disk/d")));
    OK(ft_atomic_write(at("disk/f"), "old", 3));
    OK(ft_atomic_write(at("disk/d/f"), "old", 3));
    in_child(on_full_disk);
    assert_content(at("disk/f"), "old");
    assert_content(at("disk/d/f"), "old");
    assert_int_equal(umount(at("disk")), 0);
}

// ---- atomic directories -------------------------------------------------------------------------------------------

static void write_directory(const char *path, const char *text) {
    ft_atomic_dir dir;
    OK(ft_atomic_dir_open(&dir, path));
    OK(ft_make_directories(ft_path_join(&arena, dir.temporary, "sub")));
    OK(ft_atomic_write(ft_path_join(&arena, dir.temporary, "a"), text, strlen(text)));
    OK(ft_atomic_write(ft_path_join(&arena, dir.temporary, "sub/b"), text, strlen(text)));
    OK(ft_atomic_dir_commit(&dir));
    assert_null(dir.temporary);
    ft_atomic_dir_abort(&dir);
}

static void test_directory(void **state) {
    write_directory(at("d/"), "one");
    assert_content(at("d/a"), "one");
    OK(ft_atomic_write(at("d/extra"), "x", 1));
    write_directory(at("d"), "two");
    assert_content(at("d/a"), "two");
    assert_content(at("d/sub/b"), "two");
    assert_false(ft_path_exists(at("d/extra"))); // replaced, not merged
    ft_atomic_dir dir;
    OK(ft_atomic_dir_open(&dir, at("d")));
    OK(ft_atomic_write(ft_path_join(&arena, dir.temporary, "a"), "three", 5));
    assert_content(at("d/a"), "two");
    ft_atomic_dir_abort(&dir);
    assert_content(at("d/a"), "two");
    assert_int_equal(count_hidden(scratch), 0);
    ft_atomic_dir nothing = {0};
    ft_atomic_dir_abort(&nothing);
    assert_int_equal(ft_atomic_dir_commit(&nothing), FT_FAILED);
}

// From here on the system call ends with this error.
static bool refuse_call(unsigned call, unsigned errnum) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errnum),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// A disk that does not answer is met by who waits for it, and by nobody else.
static int without_sync(void) {
    ft_atomic_dir dir;
    if (!refuse_call(SYS_fsync, EIO)) return 77;
    if (ft_atomic_write(at("w"), "one", 3) == FT_OK) return 1;
    if (!ft_atomic_wait_for_disk(false) || ft_atomic_wait_for_disk(false)) return 2; // it says how it was
    if (ft_atomic_write(at("w"), "two", 3) != FT_OK) return 3;
    if (ft_atomic_dir_open(&dir, at("s")) != FT_OK) return 4;
    if (ft_atomic_write(ft_path_join(&arena, dir.temporary, "a"), "two", 3) != FT_OK) return 5;
    if (ft_atomic_dir_commit(&dir) != FT_OK) return 6;
    if (ft_sync_tree(at("s")) == FT_OK) return 7;
    ft_atomic_wait_for_disk(true);
    return ft_atomic_write(at("w"), "three", 5) == FT_OK ? 8 : 0;
}

static void test_without_waiting_for_the_disk(void **state) {
    in_child(without_sync);
    assert_content(at("w"), "two");
    assert_content(at("s/a"), "two");
    OK(ft_sync_tree(at("s")));
    assert_int_equal(ft_sync_tree(at("nowhere")), FT_FAILED);
    assert_int_equal(count_hidden(scratch), 0);
}

// A run that goes on replaces its files meanwhile.
static void test_what_vanishes_needs_no_disk(void **state) {
    assert_int_equal(mkdir(at("s"), 0777), 0);
    pid_t child = fork();
    for (unsigned i = 0; child == 0; i++) {
        const char name[] = {(char)('a' + i % 26), '\0'};
        const char *path = ft_path_join(&arena, at("s"), name);
        if (i % 52 < 26)
            close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
        else
            unlink(path);
        ft_arena_free(&arena);
    }
    ft_status status = FT_OK;
    for (int i = 0; i < 2000 && status == FT_OK; i++)
        status = ft_sync_tree(at("s"));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    OK(status);
}

// As on a file system that cannot exchange two names: the system call says so.
static int without_exchange(void) {
    if (!refuse_call(SYS_renameat2, EINVAL)) return 77;
    ft_atomic_dir dir;
    if (ft_atomic_dir_open(&dir, at("d")) != FT_OK) return 1;
    if (ft_atomic_write(ft_path_join(&arena, dir.temporary, "a"), "two", 3) != FT_OK) return 2;
    if (renameat2(AT_FDCWD, dir.temporary, AT_FDCWD, at("d"), RENAME_EXCHANGE) == 0) return 3;
    return ft_atomic_dir_commit(&dir) == FT_OK ? 0 : 4;
}

static void test_directory_in_two_steps(void **state) {
    write_directory(at("d"), "one");
    in_child(without_exchange);
    assert_content(at("d/a"), "two");
    assert_false(ft_path_exists(at("d/sub")));
    assert_int_equal(count_hidden(scratch), 0);
}

// A reader that looks all the time while a writer is killed at random moments sees a whole directory, and what the dead
// left behind is gone after the next write.
static void test_kill_at_any_moment(void **state) {
    write_directory(at("d"), "start");
    for (int round = 0; round < 25; round++) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0;; i++)
                write_directory(at("d"), i % 2 ? "odd" : "even");
        }
        for (int look = 0; look < 20 + round * 7; look++) {
            int fd = open(at("d"), O_RDONLY | O_DIRECTORY); // one directory, looked at as long as we hold it
            assert_true(fd >= 0);
            close(fd);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        char *a, *b;
        size_t length;
        OK(ft_read_file(at("d/a"), 0, &a, &length));
        OK(ft_read_file(at("d/sub/b"), 0, &b, &length));
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    write_directory(at("d"), "end");
    assert_content(at("d/a"), "end");
    assert_int_equal(count_hidden(scratch), 0);
}

static void test_leftovers(void **state) {
    OK(ft_make_directories(at(".d.1.0.ft-tmp/sub"))); // of process 1, which lives but holds no lock
    OK(ft_atomic_write(at(".x.json.99.7.ft-tmp"), "half", 4));
    OK(ft_make_directories(at(".gone.99.0.ft-old")));
    OK(ft_atomic_write(at(".gone.99.0.ft-old/a"), "whole", 5)); // set aside by a commit that did not finish
    OK(ft_make_directories(at(".there.99.0.ft-old")));
    OK(ft_make_directories(at("there")));
    OK(ft_atomic_write(at(".mine.ft-tmp"), "x", 1)); // no such names are ours
    OK(ft_atomic_write(at(".mine.a.0.ft-tmp"), "x", 1));
    OK(ft_atomic_write(at(".1.2.ft-tmp"), "x", 1));
    ft_atomic_dir alive;
    OK(ft_atomic_dir_open(&alive, at("alive")));
    write_directory(at("d"), "text");
    assert_true(ft_path_is_directory(alive.temporary));
    OK(ft_atomic_dir_commit(&alive));
    assert_content(at("gone/a"), "whole");
    assert_true(ft_path_exists(at(".mine.ft-tmp")) && ft_path_exists(at(".mine.a.0.ft-tmp")));
    assert_true(ft_path_exists(at(".1.2.ft-tmp")));
    assert_int_equal(count_hidden(scratch), 3);
}

// Several processes write the same directory and file at once: one of them wins each time, and nobody fails.
static void test_many_writers(void **state) {
    enum { WRITERS = 4, TIMES = 25 };
    pid_t child[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        child[w] = fork();
        if (child[w] != 0) continue;
        for (int i = 0; i < TIMES; i++) {
            char name[16];
            snprintf(name, sizeof name, "d%d", w);
            write_directory(at(name), "text");
            if (ft_atomic_write(at("f"), "text", 4) != FT_OK) _exit(1);
        }
        _exit(0);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        waitpid(child[w], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_content(at("f"), "text");
    assert_int_equal(count_hidden(scratch), 0);
}

// ---- the rest -----------------------------------------------------------------------------------------------------

static void test_remove_tree(void **state) {
    OK(ft_make_directories(at("t/a/b/c")));
    OK(ft_make_directories(at("kept")));
    OK(ft_atomic_write(at("kept/f"), "x", 1));
    assert_int_equal(symlink(at("kept"), at("t/a/link")), 0);
    OK(ft_remove_tree(at("t")));
    assert_false(ft_path_exists(at("t")));
    assert_content(at("kept/f"), "x"); // links go, what they lead to stays
    OK(ft_remove_tree(at("t")));
    OK(ft_remove_tree(at("kept/f")));
    assert_false(ft_path_exists(at("kept/f")));
    assert_true(ft_path_is_directory(at("kept")));
}

static void test_copy(void **state) {
    char *copy, *original;
    size_t copied, length;
    OK(ft_copy_file("/proc/self/exe", at("copy")));
    OK(ft_read_file("/proc/self/exe", 0, &original, &length));
    OK(ft_read_file(at("copy"), 0, &copy, &copied));
    assert_int_equal(length, copied);
    assert_memory_equal(original, copy, length);
    char sum[65], again[65];
    OK(ft_sha256(original, length, sum));
    OK(ft_sha256_file(at("copy"), again));
    assert_string_equal(sum, again);
    free(original);
    free(copy);
}

static void test_sha256(void **state) { // the examples of FIPS 180-4
    char hex[65];
    OK(ft_sha256("abc", 3, hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    OK(ft_sha256("", 0, hex));
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    const char *million = "aaaaaaaaaa"; // in pieces that straddle the blocks
    ft_sha256_state state256;
    ft_sha256_begin(&state256);
    for (int i = 0; i < 100000; i++)
        ft_sha256_add(&state256, million, 10);
    unsigned char digest[32];
    ft_sha256_end(&state256, digest);
    ft_sha256_hex(digest, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_failed(ft_sha256_file(at("none"), hex), FT_INVALID, at("none"), "No such file");
}

static void test_paths(void **state) {
    assert_string_equal(ft_path_join(&arena, "a", "b"), "a/b");
    assert_string_equal(ft_path_join(&arena, "a/", "b"), "a/b");
    assert_string_equal(ft_path_join(&arena, "", "b"), "b");
    assert_string_equal(ft_path_absolute(&arena, "/x/y", "z"), "/x/y/z");
    assert_string_equal(ft_path_absolute(&arena, "/x/y/", "./z//w/."), "/x/y/z/w");
    assert_string_equal(ft_path_absolute(&arena, "/x/y", "../z"), "/x/y/../z"); // nobody knows where that leads
    assert_string_equal(ft_path_absolute(&arena, "/usr/bin", "../z/q"), "/usr/z/q");
    assert_string_equal(ft_path_absolute(&arena, "/usr/bin", "../.."), "/");
    assert_string_equal(ft_path_absolute(&arena, "/usr", "../q..r/..s"), "/q..r/..s");
    assert_string_equal(ft_path_absolute(&arena, "/x", "/z/"), "/z");
    assert_string_equal(ft_path_absolute(&arena, "/x", "/"), "/");
    assert_string_equal(ft_path_absolute(&arena, "/x", "~a/..b"), "/x/~a/..b");
    assert_int_equal(setenv("HOME", "/home/me", 1), 0);
    assert_string_equal(ft_path_absolute(&arena, "/x", "~/z"), "/home/me/z");
    assert_string_equal(ft_path_absolute(&arena, "/x", "~"), "/home/me");
    char here[4096], wanted[4200];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(wanted, sizeof wanted, "%s/b/z", here);
    assert_string_equal(ft_path_absolute(&arena, "b", "z"), wanted);
}

// predict --output /dev/stdout > file: what the program printed before and prints afterwards must stay.
static int to_standard_output(void) {
    int fd = open(at("out"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (dup2(fd, STDOUT_FILENO) < 0 || write(STDOUT_FILENO, "before ", 7) != 7) return 1;
    if (ft_atomic_write("/dev/stdout", "middle", 6) != FT_OK) return 2;
    return write(STDOUT_FILENO, " after", 6) == 6 ? 0 : 3;
}

static void test_standard_output(void **state) {
    in_child(to_standard_output);
    assert_content(at("out"), "before middle after");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_read),
        TEST(test_read_pipe),
        TEST(test_old_stays_until_commit),
        TEST(test_links_are_followed),
        TEST(test_bad_targets),
        TEST(test_unwritable_directory),
        TEST(test_full_device),
        TEST(test_file_limit),
        TEST(test_full_disk),
        TEST(test_directory),
        TEST(test_directory_in_two_steps),
        TEST(test_without_waiting_for_the_disk),
        TEST(test_what_vanishes_needs_no_disk),
        TEST(test_kill_at_any_moment),
        TEST(test_leftovers),
        TEST(test_many_writers),
        TEST(test_remove_tree),
        TEST(test_copy),
        TEST(test_sha256),
        TEST(test_paths),
        TEST(test_standard_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
