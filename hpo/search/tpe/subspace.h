// subspace.h - which parameters of a study are drawn together, found from its finished trials (COMPLETE and PRUNED).
//
// Joint: the parameters that every finished trial has, with one distribution. One finished trial without a parameter,
// or with another range, takes it out for good: it is then drawn alone. Groups: the parts of all names that always came
// together, for spaces with conditions; each part is drawn jointly, with the distribution of the lowest-numbered trial
// that has it.
#ifndef FT_HPO_SUBSPACE_H
#define FT_HPO_SUBSPACE_H

#include "hpo/search/history/trials.h"

typedef struct ft_subspace {
    int count;
    int *name, *distribution; // ids, by name; parameters with a single value are left out
} ft_subspace;

typedef struct ft_subspaces {
    struct ft_subspace_name *names; // by name id
    int name_count, groups;
    bool *seen; // [trials seen]
    int64_t seen_count, first_unseen, finished;
} ft_subspaces; // {0} is empty

// Takes in the trials that finished since the last call.
ft_status ft_subspaces_update(ft_subspaces *subspaces, const ft_trials *trials);
void ft_subspaces_free(ft_subspaces *subspaces);

// subspaces->groups says how many groups there are. The result may be empty; free it.
ft_status ft_subspaces_joint(const ft_subspaces *subspaces, const ft_trials *trials, ft_subspace *out);
// All parameters are in the joint space, numbers alone, and at least two.
bool ft_subspaces_all_numbers(const ft_subspaces *subspaces, const ft_trials *trials);
ft_status ft_subspaces_group(const ft_subspaces *subspaces, const ft_trials *trials, int group, ft_subspace *out);
// What is drawn together when trial `number` asks for `name` and it is in none of these: the parameters that every
// finished trial with this name has, always with one distribution, this one among them. Empty when no finished trial
// has the name, or when it came with other distributions.
ft_status ft_subspaces_branch(const ft_subspaces *subspaces, const ft_trials *trials, int64_t number, int name,
                              int distribution, ft_subspace *out);
void ft_subspace_free(ft_subspace *subspace);

// The values of a trial in this subspace; false when it lacks one. With `announced`, what a RUNNING trial has drawn but
// not yet asked for counts too.
bool ft_subspace_values(const ft_subspace *subspace, const ft_trial *trial, bool announced, double *values);

#endif
