// slots.h - workers and the trials in them: a study has a slot for each of study.parallel.
#ifndef FT_HPO_STUDY_SLOTS_H
#define FT_HPO_STUDY_SLOTS_H

#include "engine/train/room/admission.h"
#include "hpo/study/neighbours.h"
#include "hpo/study/study.h"
#include "hpo/study/trial.h"
#include "hpo/study/turns.h"
#include "hpo/workers/process.h"

// A place for a worker and the trial that it runs.
typedef enum ft_slot_state {
    FT_SLOT_IDLE,
    FT_SLOT_PLANNING, // the trial reads its data, and finds out what memory it needs
    FT_SLOT_WAITING,  // for its turn to reserve that
    FT_SLOT_ENTERING, // it tries
    FT_SLOT_TRAINING,
} ft_slot_state;

struct ft_slot {
    ft_worker_process worker;
    ft_slot_state state;
    int64_t number;  // of the trial, -1: none
    char *directory; // of the trial, in `arena`
    ft_arena arena;
    ft_trial_files files;
    bool pruned;               // the study has its end already, the worker still has to leave it
    bool paused;               // it goes on another time, and saves for it (pausing.h)
    bool leaving;              // asked to stop
    bool keeps;                // a checkpoint, also when it is pruned
    bool thawed;               // takes over a trial that was pruned: no pruner judges it
    ft_candidate place;        // where the trial has its memory: name, ledger, capacity, whether it is an accelerator
    ft_neighbour neighbour;    // of those on its device
    bool alone;                // told, with its turn, that no other trial holds memory
    bool lines;                // metrics.jsonl may have lines that were not read
    double sign, left;         // ft_now(): of the last sign of life, when asked to stop
    double read;               // when metrics.jsonl was read last
    ft_turn turn;              // to reserve its memory; .since is ft_now(), .tried of ft_tuning.room
    int64_t step, steps;       // as it said last
    double value;              // its last report, NaN
    uint64_t computed;         // clock ticks of its worker, when looked at for a sign of life
    size_t planned, bytes;     // memory: as planned, as reserved now
    uint64_t killed;           // what the kernel's count of processes killed for memory was when it began
};

int ft_slots_asked(const ft_tuning *tuning); // workers, by study.parallel and the cores
ft_status ft_slots_open(ft_tuning *tuning);
void ft_slots_close(ft_tuning *tuning);              // what still runs is killed
int ft_slots_running(const ft_tuning *tuning);       // trials
ft_slot *ft_slots_of(const ft_tuning *tuning, int64_t number); // NULL: in none
ft_slot *ft_slots_idle(const ft_tuning *tuning);     // NULL: none
ft_status ft_slots_begin(ft_tuning *tuning, ft_slot *slot, int64_t number); // reads what the trial has left so far
ft_status ft_slots_run(ft_tuning *tuning, ft_slot *slot);
void ft_slots_leave(ft_slot *slot);                  // asks the trial to stop; the second time it is killed
void ft_slots_end(ft_tuning *tuning, ft_slot *slot); // the trial is out of it, and released
ft_status ft_slots_drain(ft_tuning *tuning, ft_slot *slot, bool *pruned);
ft_status ft_slots_turns(ft_tuning *tuning);         // who may reserve memory now
// Waits for messages. Each slot whose trial has ended, or whose worker is gone, is told in order. The first error of several;
// whichever trial it is about, all are attended to, and one that has ended is out of its slot.
typedef ft_status (*ft_slot_ended)(ft_tuning *tuning, ft_slot *slot, const ft_trial_end *end);
ft_status ft_slots_wait(ft_tuning *tuning, double seconds, ft_slot_ended ended);

#endif
