#include "hpo/workers/process.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/context.h"
#include "engine/memory/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// In the child: only calls that are safe between fork and exec.
static void become_worker(const char *program, char *const *arguments, char *const *environment, int count, const int *sockets, int null, pid_t parent) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGINT, &standard, NULL);
    sigaction(SIGTERM, &standard, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); // it died before the line above
    if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) _exit(127); // results are the parent's
    for (int i = 0; i < count; i++) fcntl(sockets[i], F_SETFD, 0);
    execve(program, arguments, environment);
    _exit(127);
}

// This process's environment with another OMP_NUM_THREADS, which is what device.threads = 0 looks at.
static char **environment_with(int threads, char setting[32]) {
    extern char **environ;
    static const char name[] = "OMP_NUM_THREADS=";
    int count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **list = ft_calloc((size_t)count + 2, sizeof *list, "an environment");
    for (int i = 0; list != NULL && i < count; i++)
        if (threads <= 0 || strncmp(environ[i], name, sizeof name - 1) != 0) list[kept++] = environ[i];
    snprintf(setting, 32, "%s%d", name, threads);
    if (list != NULL && threads > 0) list[kept] = setting;
    return list;
}

// sockets: the worker's ends.
static ft_status launch(const char *study, int count, const int *sockets, char **environment, pid_t *child) {
    char *numbers = ft_calloc((size_t)count, 12, "the arguments of a worker");
    char name[] = "ftengine", worker[] = "worker";
    char *const arguments[] = {name, worker, numbers, (char *)study, NULL};
    if (numbers == NULL) return FT_NO_MEMORY;
    for (int i = 0, at = 0; i < count; i++) at += snprintf(numbers + at, 12, "%s%d", i > 0 ? "," : "", sockets[i]);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0) {
        free(numbers);
        return ft_fail_errno(FT_FAILED, errno, "worker", "cannot start a worker");
    }
    fflush(NULL); // or what is buffered would be written twice
    pid_t parent = getpid();
    const char *program = ft_context_now()->program;
    *child = fork();
    if (*child == 0) become_worker(program != NULL ? program : "/proc/self/exe", arguments, environment, count, sockets, null, parent);
    int error = errno;
    close(null);
    free(numbers);
    return *child < 0 ? ft_fail_errno(FT_FAILED, error, "worker", "cannot start a worker") : FT_OK;
}

static ft_status make_sockets(int count, int (*ends)[2]) {
    for (int i = 0; i < count; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]) == 0) continue;
        const int error = errno;
        while (--i >= 0) close(ends[i][0]), close(ends[i][1]);
        return ft_fail_errno(FT_FAILED, error, "worker", "cannot make a socket");
    }
    return FT_OK;
}

enum { MOST_SOCKETS = 256 };

ft_status ft_worker_process_start_pack(const char *study, int threads, int count, ft_worker_process *const *processes) {
    int ends[MOST_SOCKETS][2], theirs[MOST_SOCKETS];
    char setting[32];
    pid_t child = 0;
    if (count > MOST_SOCKETS) return ft_fail(FT_FAILED, "worker", "more than %d trials in one process", MOST_SOCKETS);
    FT_TRY(make_sockets(count, ends));
    for (int i = 0; i < count; i++) theirs[i] = ends[i][1];
    char **environment = environment_with(threads, setting);
    ft_status status = environment != NULL ? launch(study, count, theirs, environment, &child) : FT_NO_MEMORY;
    free(environment);
    for (int i = 0; i < count; i++) {
        close(theirs[i]);
        if (status != FT_OK) close(ends[i][0]);
        *processes[i] = (ft_worker_process){.pid = status == FT_OK ? child : 0, .shared = count > 1, .channel = {.socket = status == FT_OK ? ends[i][0] : -1}};
    }
    return status;
}

ft_status ft_worker_process_start(const char *study, int threads, ft_worker_process *p) {
    return ft_worker_process_start_pack(study, threads, 1, &p);
}

ft_status ft_worker_process_run(ft_worker_process *p, const ft_worker_order *order) {
    p->stopping = false;
    p->trials++;
    return ft_channel_send(&p->channel,
                           json_pack("{s:s, s:I, s:s, s:s, s:b, s:f, s:f, s:b, s:I}", "do", "run", "trial", (json_int_t)order->trial,
                                     "directory", order->directory, "devices", order->devices != NULL ? order->devices : "", "wait", order->wait, "wait_timeout",
                                     order->wait_timeout, "check_interval", order->check_interval,
                                     "taken", order->taken, "beside", (json_int_t)order->beside));
}

ft_status ft_worker_process_enter(ft_worker_process *p, bool alone) {
    return ft_channel_send(&p->channel, json_pack("{s:s, s:b}", "do", "enter", "alone", alone));
}

void ft_worker_process_kill(ft_worker_process *p) {
    if (p->pid > 0 && !p->collected) kill(p->pid, SIGKILL);
}

void ft_worker_process_stop(ft_worker_process *p, bool keep) {
    if (p->pid <= 0) return;
    if (p->stopping) {
        ft_worker_process_kill(p);
        return;
    }
    p->stopping = true;
    // One that is gone shows that by the end of its channel.
    if (ft_channel_send(&p->channel, json_pack("{s:s, s:b}", "do", "stop", "keep", keep)) != FT_OK) ft_error_clear();
    if (!p->shared) kill(p->pid, SIGTERM);
}

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

int ft_worker_process_collect(ft_worker_process *p) {
    int status = 0;
    if (p->pid <= 0) return 0;
    while (!p->collected && waitpid(p->pid, &status, 0) < 0 && errno == EINTR) {
    }
    p->code = p->collected ? p->code : code_of(status);
    p->pid = 0;
    ft_channel_close(&p->channel);
    return p->code;
}

int ft_worker_process_close(ft_worker_process *p, double patience) {
    ft_channel_close(&p->channel);
    if (p->collected) p->pid = 0;
    if (p->pid <= 0) return 0;
    for (double end = ft_now() + patience; ft_now() < end; nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL)) {
        int status;
        if (waitpid(p->pid, &status, WNOHANG) != p->pid) continue;
        p->pid = 0;
        return code_of(status);
    }
    ft_worker_process_kill(p);
    return ft_worker_process_collect(p);
}

size_t ft_worker_process_memory(const ft_worker_process *p) { return p->pid > 0 ? ft_process_resident(p->pid) : 0; }
