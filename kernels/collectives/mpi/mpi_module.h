// mpi_module.h - what the program and its module for MPI (module/module.c) say to each other. The module alone is
// linked to a library of MPI, and the program opens it when ranks are on several hosts; so the program runs where there
// is none.
//
// Functions return 0 or a code of the library's, of which `text` says what it means. None waits but open and close:
// what was begun has happened when `test` says so, and its memory is left alone until then.
#ifndef FT_MPI_MODULE_H
#define FT_MPI_MODULE_H

#define FT_MPI_MODULE_FILE "libftengine_mpi.so"
#define FT_MPI_MODULE_ENTRY "ft_mpi_module"
enum { FT_MPI_MODULE_LAYOUT = 1 }; // another one: built from other sources

// Who hears it: all ranks; the first of every host; all again, for what nobody waits for.
typedef enum ft_mpi_circle { FT_MPI_ALL, FT_MPI_LEADERS, FT_MPI_ASIDE, FT_MPI_CIRCLES } ft_mpi_circle;

typedef struct ft_mpi_request {
    _Alignas(16) unsigned char own[16];
} ft_mpi_request;

typedef struct ft_mpi_module_table {
    int layout;
    const char *library; // name and version, for people
    int (*open)(int *rank, int *ranks);
    int (*split)(int leads); // a collective: makes FT_MPI_LEADERS of those that lead, in the order of ranks
    int (*send)(int circle, const void *data, int bytes, int to, ft_mpi_request *request);
    int (*receive)(int circle, void *data, int bytes, int from, ft_mpi_request *request);
    int (*probe)(int *from, int *bytes); // of FT_MPI_ASIDE: who has sent how much that is there; -1: nobody
    int (*broadcast)(int circle, void *data, int bytes, int root, ft_mpi_request *request);
    int (*gather)(int circle, void *data, int bytes_of_one, ft_mpi_request *request); // in place
    int (*barrier)(int circle, ft_mpi_request *request);
    int (*test)(ft_mpi_request *request, int *done);
    void (*text)(int code, char *text, int size); // at least 512 bytes
    int (*close)(void);
} ft_mpi_module_table;

typedef const ft_mpi_module_table *ft_mpi_module_entry(void);

#endif
