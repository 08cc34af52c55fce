// messages.h - what a group over MPI (group.c) has of MPI: operations that are waited for with an eye on the others.
#ifndef FT_MPI_MESSAGES_H
#define FT_MPI_MESSAGES_H

#include "kernels/collectives/mpi/mpi_group.h"
#include "kernels/collectives/mpi/mpi_module.h"

// Bytes of one message at most: MPI counts in int.
enum { FT_MPI_MESSAGE = 1 << 28 };

typedef struct ft_mpi_message {
    enum { FT_MPI_FAILURE = 1, FT_MPI_WORD } kind;
    ft_error error;
} ft_mpi_message;

struct ft_mpi {
    const ft_mpi_module_table *table;
    int rank, ranks;
    char host[FT_GROUP_RANKS][FT_GROUP_HOST];
    ft_group *near; // which is looked at, too; NULL: there is none yet
    bool ended, word;
    ft_error error;               // of the rank that ended it
    ft_mpi_message failure, last; // that this one has sent
};

// A code of MPI's as a status.
ft_status ft_mpi_check(const ft_mpi *mpi, int code, const char *what);
ft_status ft_mpi_wait(ft_mpi *mpi, ft_mpi_request *request, const char *what);
// Is it over? Never waits. FT_FAILED, or what the rank that ended it has failed with.
ft_status ft_mpi_look(ft_mpi *mpi);
// [ranks] of `bytes` each, of which this rank's are there.
ft_status ft_mpi_gather(ft_mpi *mpi, void *data, int bytes);

#endif
