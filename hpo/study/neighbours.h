// neighbours.h - trials of this coordinator that are on one device at the same time: whether one more may come
// (study.share_devices), by how much they are predicted to slow each other down and what is seen of it (hpo/sharing).
//
// Only trials whose workers have said what their steps take are judged; those of a pack (study.pack) share a process,
// and are not. Trials of other coordinators and other programs are not known.
#ifndef FT_HPO_STUDY_NEIGHBOURS_H
#define FT_HPO_STUDY_NEIGHBOURS_H

#include "engine/train/room/admission.h"
#include "hpo/sharing/tempo.h"
#include "hpo/sharing/sharing.h"

#include <jansson.h>

struct ft_tuning;
struct ft_slot;

// In its slot.
typedef struct ft_neighbour {
    bool priced;                                      // its worker has said:
    char ledger[sizeof(((ft_candidate *)0)->ledger)]; // where it will be
    ft_step_price price;
    ft_demand demand;
    uint64_t judged; // ft_tuning.company when `may` was found
    bool may;
    bool told;          // that it is held back
    double since, held; // since when it is, 0: it is not; seconds that it was
    uint64_t company;   // ft_tuning.company when these were found:
    int others;         // beside it on its device
    double slowdown;    // predicted
    int most;           // of `others` so far
    ft_tempo tempo;
} ft_neighbour;

void ft_neighbours_priced(struct ft_slot *slot, const json_t *message);
// A trial has its memory, or has left its worker.
void ft_neighbours_changed(struct ft_tuning *tuning);
// Of one that waits: may it try to enter now, for all that is about time?
bool ft_neighbours_may(struct ft_tuning *tuning, struct ft_slot *slot);
// Whether two that wait would be on one device.
bool ft_neighbours_meet(const struct ft_slot *a, const struct ft_slot *b);
// A sign of life of one that trains. step -1: not of a step.
void ft_neighbours_sign(struct ft_tuning *tuning, struct ft_slot *slot, double now, int64_t step);
// In the group that stores its end: the record of hpo/sharing/record.h, if it shared its device or was held back. Of a trial that went on
// after a kill: since then.
ft_status ft_neighbours_store(struct ft_tuning *tuning, int64_t number);

#endif
