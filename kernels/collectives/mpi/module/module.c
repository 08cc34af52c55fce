// The module: functions of MPI behind the names of mpi_module.h. Compiled by mpicc, for the library that this is of.
#include "kernels/collectives/mpi/mpi_module.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

static MPI_Comm circle[FT_MPI_CIRCLES] = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL};
static char library[MPI_MAX_LIBRARY_VERSION_STRING];

_Static_assert(sizeof(MPI_Request) <= sizeof(ft_mpi_request), "room for a request");

static void keep(ft_mpi_request *to, MPI_Request request) { memcpy(to->own, &request, sizeof request); }

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const int code_ = (call);                                                                                      \
        if (code_ != MPI_SUCCESS) return code_;                                                                        \
    } while (0)

// Errors come back as codes: the library's own way would end the process in the middle of what it writes.
static int duplicate(int which) {
    TRY(MPI_Comm_dup(MPI_COMM_WORLD, &circle[which]));
    return MPI_Comm_set_errhandler(circle[which], MPI_ERRORS_RETURN);
}

static int open_all(int *rank, int *ranks) {
    int given;
    TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given));
    TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TRY(duplicate(FT_MPI_ALL));
    TRY(duplicate(FT_MPI_ASIDE));
    TRY(MPI_Comm_rank(circle[FT_MPI_ALL], rank));
    return MPI_Comm_size(circle[FT_MPI_ALL], ranks);
}

static int split(int leads) {
    int rank;
    TRY(MPI_Comm_rank(circle[FT_MPI_ALL], &rank));
    TRY(MPI_Comm_split(circle[FT_MPI_ALL], leads ? 0 : MPI_UNDEFINED, rank, &circle[FT_MPI_LEADERS]));
    return leads ? MPI_Comm_set_errhandler(circle[FT_MPI_LEADERS], MPI_ERRORS_RETURN) : MPI_SUCCESS;
}

static int send_to(int which, const void *data, int bytes, int to, ft_mpi_request *request) {
    MPI_Request r;
    TRY(MPI_Isend(data, bytes, MPI_BYTE, to, 0, circle[which], &r));
    return keep(request, r), MPI_SUCCESS;
}

static int receive_from(int which, void *data, int bytes, int from, ft_mpi_request *request) {
    MPI_Request r;
    TRY(MPI_Irecv(data, bytes, MPI_BYTE, from, 0, circle[which], &r));
    return keep(request, r), MPI_SUCCESS;
}

static int probe(int *from, int *bytes) {
    MPI_Status status;
    int there;
    *from = -1;
    TRY(MPI_Iprobe(MPI_ANY_SOURCE, 0, circle[FT_MPI_ASIDE], &there, &status));
    if (!there) return MPI_SUCCESS;
    *from = status.MPI_SOURCE;
    return MPI_Get_count(&status, MPI_BYTE, bytes);
}

static int broadcast(int which, void *data, int bytes, int root, ft_mpi_request *request) {
    MPI_Request r;
    TRY(MPI_Ibcast(data, bytes, MPI_BYTE, root, circle[which], &r));
    return keep(request, r), MPI_SUCCESS;
}

static int gather(int which, void *data, int bytes_of_one, ft_mpi_request *request) {
    MPI_Request r;
    TRY(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, bytes_of_one, MPI_BYTE, circle[which], &r));
    return keep(request, r), MPI_SUCCESS;
}

static int barrier(int which, ft_mpi_request *request) {
    MPI_Request r;
    TRY(MPI_Ibarrier(circle[which], &r));
    return keep(request, r), MPI_SUCCESS;
}

static int test(ft_mpi_request *request, int *done) {
    MPI_Request r;
    memcpy(&r, request->own, sizeof r);
    const int code = MPI_Test(&r, done, MPI_STATUS_IGNORE);
    keep(request, r);
    return code;
}

static void text(int code, char *to, int size) {
    char all[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, all, &length) != MPI_SUCCESS) snprintf(all, sizeof all, "error %d", code);
    snprintf(to, (size_t)size, "%s", all);
}

static int close_all(void) {
    for (int i = 0; i < FT_MPI_CIRCLES; i++)
        if (circle[i] != MPI_COMM_NULL) TRY(MPI_Comm_free(&circle[i]));
    return MPI_Finalize();
}

static const ft_mpi_module_table table = {
    .layout = FT_MPI_MODULE_LAYOUT,
    .library = library,
    .open = open_all,
    .split = split,
    .send = send_to,
    .receive = receive_from,
    .probe = probe,
    .broadcast = broadcast,
    .gather = gather,
    .barrier = barrier,
    .test = test,
    .text = text,
    .close = close_all,
};

__attribute__((visibility("default"))) const ft_mpi_module_table *ft_mpi_module(void);

const ft_mpi_module_table *ft_mpi_module(void) {
    int length;
    if (MPI_Get_library_version(library, &length) != MPI_SUCCESS) snprintf(library, sizeof library, "MPI");
    library[strcspn(library, "\n,")] = '\0';
    return &table;
}
