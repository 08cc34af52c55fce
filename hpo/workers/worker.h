// worker.h - a worker of a study: a process that runs trial after trial for a coordinator (process.h), so that
// what a process needs to begin - a device's context, the program itself - is paid once, and what goes wrong in it
// costs one trial. The process is `ftengine worker SOCKET STUDY`, which only a coordinator starts; with several sockets, SOCKET,SOCKET,...,
// it runs a trial at the end of each at the same time (a pack), and its end is that of them all.
//
// The messages (channel.h). To the worker:
//     {"do": "run", "trial": 5, "directory": "trials/00005", "taken": true, ...}   trains DIRECTORY/config.ini there,
//                                                        resuming what is there; below the study's directory, whose
//                                                        name may be any bytes
//     {"do": "enter", "alone": false}                    it is this worker's turn to reserve its memory
//     {"do": "stop", "keep": true}                       the trial stops, and saves what it has if it is to go on some
//                                                        day; comes with a SIGTERM, which reaches a trial that trains,
//                                                        as this does one that still begins
// It ends when the socket does. From the worker:
//     {"is": "priced", "ledger": "cpu", "seconds": s, "occupied": s, "computing": s, "moving": s, "starting": s, "travelling": s, "threads": n}
//                                                        what a step is predicted to take (ft_step_price), before:
//     {"is": "planned", "bytes": n}                      the memory is known, and is reserved at its turn
//     {"is": "full"}                                     it tried, and there was no room: another turn, please
//     {"is": "entered", "device": "cpu", "ledger": "cpu", "capacity": n, "accelerator": false}
//     {"is": "alive", "step": 10, "steps": 140, "bytes": n, "logged": true}
//     {"is": "end", "code": 0, "error": "...", "disk_full": false, "needed": n, "limit": n, "peak": n}
//                                                        a status; whether want of disk space was the reason; what was
//                                                        needed and could be taken, when memory was; what it had at most
// Messages of the trial go to DIRECTORY/log.txt, the stack of a crash too.
#ifndef FT_HPO_WORKER_H
#define FT_HPO_WORKER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_worker ft_worker;

typedef struct ft_worker_job {
    int64_t trial;
    const char *directory; // absolute
    const char *devices;   // device.name, whatever DIRECTORY/config.ini says; "": as that says
    bool wait;             // for a device, as device.wait and its like; not what DIRECTORY/config.ini says
    double wait_timeout, check_interval;
    bool taken; // as ft_run_observer.taken: what is to stay is written to the disk by the coordinator
    size_t beside; // as ft_run_observer.beside: what the coordinator holds
    size_t needed, limit; // set by the function below: FT_NO_MEMORY, bytes; 0: not known
    size_t peak;          // set too: bytes that it had reserved at most
} ft_worker_job;

// Trains. The error of a failure is set when it returns.
typedef ft_status (*ft_worker_function)(void *context, ft_worker *worker, ft_worker_job *job);

// Until the other end of the socket is closed, which is FT_OK. study: its directory.
ft_status ft_worker_serve(int socket, const char *study, ft_worker_function run, void *context);

// The same for several trials at a time, a thread and a context each (base/context.h), one at the end of each socket; until all are closed.
// A stop comes as a message alone; a signal to the process is one for all.
ft_status ft_worker_serve_pack(int count, const int *sockets, const char *study, ft_worker_function run, void *context);

// For the function: what a run's observer is told (engine/train/room/observer.h).
void ft_worker_alive(ft_worker *worker, int64_t step, int64_t steps, size_t bytes, bool logged);
ft_status ft_worker_turn(ft_worker *worker, size_t bytes, bool full, bool *alone);
struct ft_step_price; // engine/train/room/observer.h
void ft_worker_priced(ft_worker *worker, const char *ledger, const struct ft_step_price *price);
typedef struct ft_worker_place { // where a trial has reserved its memory
    const char *device, *ledger; // names: for people, and of the ledger's file
    size_t capacity;             // bytes that all reservations there together may have
    bool accelerator;            // with memory of its own
} ft_worker_place;
void ft_worker_entered(ft_worker *worker, const ft_worker_place *place);
bool ft_worker_keeps(ft_worker *worker);

// A signal that ends the process leaves its stack on standard error first.
void ft_worker_show_crashes(void);

#endif
