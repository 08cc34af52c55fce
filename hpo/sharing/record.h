// record.h - what a study keeps of trials that had a device together: attributes sharing.* of the trial, and of the
// study how many there are, so that who reads a study without any asks no trial.
#ifndef FT_HPO_SHARING_RECORD_H
#define FT_HPO_SHARING_RECORD_H

#include "hpo/sharing/tempo.h"
#include "hpo/storage/storage.h"

typedef struct ft_sharing_record {
    int64_t trial;
    int beside;             // the most that were there at once; 0: it had its device alone
    double share;           // the part of its device that it keeps busy alone, predicted
    double predicted, seen; // slow-down; NAN: not known
    const char *against;    // ft_tempo_against_name
    double held;            // seconds that it was not begun, since trials an hour would not have grown; 0: none
} ft_sharing_record;

// In a group, once for a trial, with its end.
ft_status ft_sharing_store(ft_stored *study, const ft_sharing_record *record);
// Those that were stored, by number. In `arena`.
ft_status ft_sharing_load(ft_stored *study, ft_arena *arena, ft_sharing_record **records, int64_t *count);
// Means of those that are known, NAN: of none. seen_of: how many those are.
typedef struct ft_sharing_means {
    int64_t shared, held, seen_of; // trials that had others beside them; that were held back
    double predicted, seen;
    double expected; // mean of the predicted ones among those whose slow-down was seen
} ft_sharing_means;
ft_sharing_means ft_sharing_sum_up(const ft_sharing_record *records, int64_t count);

#endif
