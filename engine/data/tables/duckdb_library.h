// duckdb_library.h - DuckDB's C library, loaded when a Parquet file is read and not before. No distribution has a
// package of it that could be built against, and of its interface a few functions are enough, so they are declared
// here: DuckDB keeps them since 0.10.
#ifndef FT_DUCKDB_LIBRARY_H
#define FT_DUCKDB_LIBRARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// duckdb_result, which a function takes by value.
typedef struct ft_duckdb_result {
    uint64_t columns, rows, changed;
    void *column;
    char *message;
    void *internal;
} ft_duckdb_result;

// Databases, connections, statements, chunks and vectors are pointers to what nobody looks into. int: 0 is success.
typedef struct ft_duckdb {
    int (*create_config)(void **config);
    int (*set_config)(void *config, const char *name, const char *value);
    void (*destroy_config)(void **config);
    int (*open_ext)(const char *path, void **database, void *config, char **error);
    void (*close)(void **database);
    int (*connect)(void *database, void **connection);
    void (*disconnect)(void **connection);
    int (*prepare)(void *connection, const char *query, void **statement);
    const char *(*prepare_error)(void *statement);
    int (*execute_prepared_streaming)(void *statement,
                                      ft_duckdb_result *result); // whose rows come as they are asked for
    void (*destroy_prepare)(void **statement);
    const char *(*result_error)(ft_duckdb_result *result); // NULL: there is none
    void (*destroy_result)(ft_duckdb_result *result);
    void *(*fetch_chunk)(ft_duckdb_result result); // NULL: no more, or an error
    uint64_t (*data_chunk_get_size)(void *chunk);
    void *(*data_chunk_get_vector)(void *chunk, uint64_t column);
    void (*destroy_data_chunk)(void **chunk);
    void *(*vector_get_data)(void *vector);
    uint64_t *(*vector_get_validity)(void *vector); // bit by bit; NULL: all are there
    void (*free)(void *memory);
} ft_duckdb;

#define FT_DUCKDB_FUNCTIONS(X)                                                                                         \
    X(create_config)                                                                                                   \
    X(set_config)                                                                                                      \
    X(destroy_config) X(open_ext) X(close) X(connect) X(disconnect) X(prepare) X(prepare_error)                        \
        X(execute_prepared_streaming) X(destroy_prepare) X(result_error) X(destroy_result) X(fetch_chunk)              \
            X(data_chunk_get_size) X(data_chunk_get_vector) X(destroy_data_chunk) X(vector_get_data)                   \
                X(vector_get_validity) X(free)

// Loads it at the process's first call, which any thread may make: the file of $FTENGINE_DUCKDB, else libduckdb.so
// where the loader looks. The module of Python's package duckdb will do: it has the same functions, and libpython,
// which it lacks in a program, is loaded before it. *absent: there is none, and nobody named one; then there is no
// error yet. FT_FAILED: what was named is none that can be used.
ft_status ft_duckdb_load(const ft_duckdb **duckdb, bool *absent);

#endif
