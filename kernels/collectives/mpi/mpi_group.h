// mpi_group.h - ranks on several hosts as one group (collectives.h), by MPI between hosts and by shared memory within
// each.
//
//     FT_TRY(ft_mpi_open(&mpi));                          a collective of all ranks that mpirun or srun started
//     FT_TRY(ft_mpi_agree(mpi, "version", FT_VERSION));
//     FT_TRY(ft_mpi_group_open(mpi, near, &group));       near: the ranks of this host, who share memory
//     ... ft_group_*(group, ..) ...
//     ft_group_close(group); ft_mpi_close(mpi, well);
//
// The library of MPI is in a module of its own (mpi_module.h). Nobody waits in it: every wait asks whether the
// operation has happened, and between times whether a rank has failed - of this host by its memory, of another one by a
// message that it has sent aside. Who is killed on another host says nothing; mpirun and srun then end all ranks of the
// job.
#ifndef FT_MPI_GROUP_H
#define FT_MPI_GROUP_H

#include "kernels/collectives/collectives.h"

enum { FT_MPI_VALUE = 192 };

typedef struct ft_mpi ft_mpi;

// Waits until all ranks of the job have called it. FT_INVALID: there is no module (FTENGINE_MPI_MODULE names one), or
// it is of another build; FT_FAILED: more ranks than a group has, or MPI's own error.
ft_status ft_mpi_open(ft_mpi **mpi);
// well: it goes on to the end of MPI, which waits for all ranks. Else this rank leaves as it is.
void ft_mpi_close(ft_mpi *mpi, bool well); // NULL is fine
int ft_mpi_rank(const ft_mpi *mpi);
int ft_mpi_ranks(const ft_mpi *mpi);
const char *ft_mpi_library(const ft_mpi *mpi);

// A collective: every rank has the same value for `name`, of at most FT_MPI_VALUE - 1 bytes, or FT_INVALID on all of
// them says who has another.
ft_status ft_mpi_agree(ft_mpi *mpi, const char *name, const char *value);
// This rank cannot go on: all that wait are told, and get its error. The first one counts.
void ft_mpi_abort(ft_mpi *mpi, const ft_error *error);
// Of a failure: rank 0 is about to say what there is to say, and returns at once; others wait for that, at most so many
// seconds. False: it has not.
bool ft_mpi_word(ft_mpi *mpi, double seconds);

// Takes `near` over, also by a failure; `mpi` stays the caller's, and outlives the group. A collective.
ft_status ft_mpi_group_open(ft_mpi *mpi, ft_group *near, ft_group **group);

#endif
