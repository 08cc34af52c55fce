// library.h - the module for MPI (mpi_module.h), found and opened.
#ifndef FT_MPI_LIBRARY_H
#define FT_MPI_LIBRARY_H

#include "base/status.h"
#include "kernels/collectives/mpi/mpi_module.h"

// FTENGINE_MPI_MODULE, else beside the program or the library that this is in, or where `make install` puts it.
// FT_INVALID: there is none, or it is none of this build. It stays in the process.
ft_status ft_mpi_library_open(const ft_mpi_module_table **table);

#endif
