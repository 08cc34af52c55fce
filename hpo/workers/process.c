#include "hpo/workers/process.h"

#include "base/arena.h"
#include "base/clock.h"
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
static void become_worker(char *const *arguments, char *const *environment, int socket, int null, pid_t parent) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGINT, &standard, NULL);
    sigaction(SIGTERM, &standard, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); // it died before the line above
    if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) _exit(127); // results are the parent's
    fcntl(socket, F_SETFD, 0);
    execve("/proc/self/exe", arguments, environment);
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

static ft_status launch(const char *study, int ends[2], char **environment, ft_worker_process *p) {
    char number[16];
    char name[] = "ftengine", worker[] = "worker";
    char *const arguments[] = {name, worker, number, (char *)study, NULL};
    snprintf(number, sizeof number, "%d", ends[1]);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0) return ft_fail_errno(FT_FAILED, errno, "worker", "cannot start a worker");
    fflush(NULL); // or what is buffered would be written twice
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become_worker(arguments, environment, ends[1], null, parent);
    int error = errno;
    close(null);
    if (pid < 0) return ft_fail_errno(FT_FAILED, error, "worker", "cannot start a worker");
    *p = (ft_worker_process){.pid = pid, .channel = {.socket = ends[0]}};
    return FT_OK;
}

ft_status ft_worker_process_start(const char *study, int threads, ft_worker_process *p) {
    int ends[2];
    char setting[32];
    *p = (ft_worker_process){.channel = {.socket = -1}};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return ft_fail_errno(FT_FAILED, errno, "worker", "cannot make a socket");
    char **environment = environment_with(threads, setting);
    ft_status status = environment != NULL ? launch(study, ends, environment, p) : FT_NO_MEMORY;
    free(environment);
    close(ends[1]);
    if (status != FT_OK) close(ends[0]);
    return status;
}

ft_status ft_worker_process_run(ft_worker_process *p, const ft_worker_order *order) {
    p->stopping = false;
    p->trials++;
    return ft_channel_send(&p->channel,
                           json_pack("{s:s, s:I, s:s, s:b, s:f, s:f, s:b, s:I}", "do", "run", "trial", (json_int_t)order->trial,
                                     "directory", order->directory, "wait", order->wait, "wait_timeout",
                                     order->wait_timeout, "check_interval", order->check_interval,
                                     "taken", order->taken, "beside", (json_int_t)order->beside));
}

ft_status ft_worker_process_enter(ft_worker_process *p, bool alone) {
    return ft_channel_send(&p->channel, json_pack("{s:s, s:b}", "do", "enter", "alone", alone));
}

void ft_worker_process_kill(ft_worker_process *p) {
    if (p->pid > 0) kill(p->pid, SIGKILL);
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
    kill(p->pid, SIGTERM);
}

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

int ft_worker_process_collect(ft_worker_process *p) {
    int status = 0;
    if (p->pid <= 0) return 0;
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) {
    }
    p->pid = 0;
    ft_channel_close(&p->channel);
    return code_of(status);
}

int ft_worker_process_close(ft_worker_process *p, double patience) {
    ft_channel_close(&p->channel);
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
