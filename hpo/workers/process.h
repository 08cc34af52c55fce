// process.h - a worker (worker.h) as its coordinator sees it: a child process at the other end of a socket. It
// dies with its parent, kill -9 included, and is in a process group of its own, so that Ctrl-C reaches its trial only
// through ft_worker_process_stop().
#ifndef FT_HPO_WORKER_PROCESS_H
#define FT_HPO_WORKER_PROCESS_H

#include "hpo/workers/channel.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct ft_worker_process {
    pid_t pid; // 0: not running
    bool shared;    // with others of a pack, each at the end of a socket of its own
    bool collected; // of those: its end was, by another
    int code;       // as it was then
    ft_channel channel;
    int64_t trials; // that it was sent
    bool stopping; // the trial was asked to stop
} ft_worker_process;

// Starts `ftengine worker SOCKET STUDY`, of the context's program (base/context.h), STUDY being the study's directory. threads > 0: as many computing
// threads as that, unless a trial says otherwise.
ft_status ft_worker_process_start(const char *study, int threads, ft_worker_process *process);
// One process for `count` trials at a time, one at the end of each of these.
ft_status ft_worker_process_start_pack(const char *study, int threads, int count, ft_worker_process *const *processes);
typedef struct ft_worker_order {
    int64_t trial;
    const char *directory; // of the trial, in that of the study; it must be there, with its config.ini
    const char *devices;   // ft_worker_job.devices; NULL: as its config.ini says
    // How it waits for a device is not what it was when the trial was made, but what is wanted now: as device.wait, ...
    bool wait;
    double wait_timeout, check_interval;
    bool taken; // ft_worker_job.taken
    size_t beside; // ft_worker_job.beside
} ft_worker_order;
ft_status ft_worker_process_run(ft_worker_process *process, const ft_worker_order *order);
ft_status ft_worker_process_enter(ft_worker_process *process, bool alone);
// Asks the trial to stop, and to save what it has if `keep`; the second time it is killed, with those that share the process.
void ft_worker_process_stop(ft_worker_process *process, bool keep);
void ft_worker_process_kill(ft_worker_process *process); // its end is still to be collected
// Waits for the end of a process whose channel has ended: its exit code, or minus the signal that killed it.
int ft_worker_process_collect(ft_worker_process *process);
// Closes the socket, which an idle worker takes as its end; one that does not go within `patience` seconds is killed.
// Returns as the above; 0 when there was none.
int ft_worker_process_close(ft_worker_process *process, double patience);
// Resident bytes at this moment, 0 when not known.
size_t ft_worker_process_memory(const ft_worker_process *process);

#endif
