#include "engine/data/tables/parquet.h"

#include "base/arena.h"
#include "engine/data/tables/duckdb_library.h"
#include "engine/data/tables/kinds.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ft_parquet {
    const ft_duckdb *duckdb;
    const char *name;
    char path[32]; // of the open file: free of what a file's own name may have, as * and quotes
    void *config, *database, *connection, *statement, *chunk;
    ft_duckdb_result result;
    bool running;       // there is a result
    uint64_t row, rows; // of the chunk: the next one, and how many there are
    size_t taken;       // bytes of that row
    char *left_out;
    ft_arena arena;
};

static const char magic[] = "PAR1\x15"; // and the head of a first page

bool ft_is_parquet(const char *data, size_t length) {
    return length >= sizeof magic - 1 && memcmp(data, magic, sizeof magic - 1) == 0;
}

bool ft_file_is_parquet(const char *path) {
    struct stat facts;
    char first[sizeof magic - 1];
    if (strcmp(path, "-") == 0 || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = file >= 0 ? read(file, first, sizeof first) : 0;
    if (file >= 0) close(file);
    return got == (ssize_t)sizeof first && ft_is_parquet(first, sizeof first);
}

// ---- queries ------------------------------------------------------------------------------------------------------

// DuckDB's first line, with the file's own name in it.
static ft_status damaged(const ft_parquet *p, const char *said) {
    char text[600];
    size_t used = 0;
    const size_t own = strlen(p->path);
    if (said == NULL) said = "no reason given";
    const char *colon = strstr(said, "Error: "); // its kind: "Invalid Input Error: "
    if (colon != NULL && colon < strchrnul(said, '\n')) said = colon + strlen("Error: ");
    while (*said != '\0' && *said != '\n' && used + 1 < sizeof text) {
        if (strncmp(said, p->path, own) != 0) {
            text[used++] = *said++;
            continue;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%.200s", p->name);
        if (used >= sizeof text) used = sizeof text - 1;
        said += own;
    }
    text[used] = '\0';
    return ft_fail(FT_INVALID, p->name, "this Parquet file cannot be read: %s", text);
}

static void end_query(ft_parquet *p) {
    if (p->chunk != NULL) p->duckdb->destroy_data_chunk(&p->chunk);
    if (p->running) p->duckdb->destroy_result(&p->result);
    if (p->statement != NULL) p->duckdb->destroy_prepare(&p->statement);
    p->chunk = p->statement = NULL;
    p->running = false;
    p->row = p->rows = 0;
}

static ft_status begin_query(ft_parquet *p, const char *query) {
    end_query(p);
    if (p->duckdb->prepare(p->connection, query, &p->statement) != 0)
        return damaged(p, p->statement != NULL ? p->duckdb->prepare_error(p->statement) : NULL);
    p->result = (ft_duckdb_result){0};
    p->running = true;
    return p->duckdb->execute_prepared_streaming(p->statement, &p->result) == 0
               ? FT_OK
               : damaged(p, p->duckdb->result_error(&p->result));
}

// Rows of a chunk that have come. *found false: there are none left.
static ft_status next_chunk(ft_parquet *p, bool *found) {
    do {
        if (p->chunk != NULL) p->duckdb->destroy_data_chunk(&p->chunk);
        p->chunk = p->duckdb->fetch_chunk(p->result);
        if (p->chunk == NULL) {
            const char *error = p->duckdb->result_error(&p->result);
            *found = false;
            return error != NULL && *error != '\0' ? damaged(p, error) : FT_OK;
        }
        p->row = 0;
        p->rows = p->duckdb->data_chunk_get_size(p->chunk);
    } while (p->rows == 0);
    *found = true;
    return FT_OK;
}

// A text of the chunk: its length, and up to 12 bytes, or four of them and where all are.
static const char *text_of(const ft_parquet *p, uint64_t column, uint64_t row, size_t *length) {
    void *vector = p->duckdb->data_chunk_get_vector(p->chunk, column);
    const uint64_t *there = p->duckdb->vector_get_validity(vector);
    *length = 0;
    if (there != NULL && (there[row / 64] >> row % 64 & 1) == 0) return "";
    const char *string = (const char *)p->duckdb->vector_get_data(vector) + 16 * row, *far;
    uint32_t bytes;
    memcpy(&bytes, string, sizeof bytes);
    memcpy(&far, string + 8, sizeof far);
    *length = bytes;
    return bytes <= 12 ? string + 4 : far;
}

// ---- a file -------------------------------------------------------------------------------------------------------

// No thread of its own, nothing fetched from anywhere, nothing written beside.
static ft_status open_database(ft_parquet *p) {
    static const char *const settings[][2] = {
        {"threads", "1"}, {"autoinstall_known_extensions", "false"}, {"temp_directory", ""}};
    const ft_duckdb *d = p->duckdb;
    char *error = NULL;
    if (d->create_config(&p->config) != 0) return ft_fail_memory(0, "DuckDB");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (d->set_config(p->config, settings[i][0], settings[i][1]) != 0)
            return ft_fail(FT_FAILED, p->name, "DuckDB knows no setting %s", settings[i][0]);
    if (d->open_ext(NULL, &p->database, p->config, &error) != 0) {
        const ft_status status =
            ft_fail(FT_FAILED, p->name, "DuckDB does not begin: %.300s", error != NULL ? error : "no reason given");
        if (error != NULL) d->free(error);
        return status;
    }
    return d->connect(p->database, &p->connection) == 0
               ? FT_OK
               : ft_fail(FT_FAILED, p->name, "DuckDB does not begin: no connection");
}

// ", "name"" with its quotes doubled, behind a list that may be NULL.
static char *and_name(ft_parquet *p, const char *list, const char *name, size_t length) {
    char *quoted = ft_arena_alloc(&p->arena, 2 * length + 3);
    size_t used = 0;
    if (quoted == NULL) return NULL;
    quoted[used++] = '"';
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '"') quoted[used++] = '"';
        quoted[used++] = name[i];
    }
    quoted[used++] = '"';
    return list == NULL ? quoted : ft_arena_format(&p->arena, "%s, %s", list, quoted);
}

// Which columns hold bytes, as pictures in data sets of the Hub do: a list for EXCLUDE, NULL: none. *all: there is no
// other.
static ft_status find_bytes(ft_parquet *p, const char *source, char **list, bool *all) {
    const char *query =
        ft_arena_format(&p->arena, "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM %s)", source);
    if (query == NULL) return FT_NO_MEMORY;
    FT_TRY(begin_query(p, query));
    *list = NULL;
    *all = true;
    for (bool found;;) {
        FT_TRY(next_chunk(p, &found));
        if (!found) return FT_OK;
        for (uint64_t i = 0; i < p->rows; i++) {
            size_t name_length, type_length;
            const char *name = text_of(p, 0, i, &name_length), *type = text_of(p, 1, i, &type_length);
            const bool bytes = memmem(type, type_length, "BLOB", 4) != NULL;
            if (!bytes) *all = false;
            if (bytes && (*list = and_name(p, *list, name, name_length)) == NULL) return FT_NO_MEMORY;
        }
    }
}

static ft_status begin(ft_parquet *p) {
    bool all;
    FT_TRY(open_database(p));
    const char *source = ft_arena_format(&p->arena, "read_parquet('%s', hive_partitioning = false)", p->path);
    if (source == NULL) return FT_NO_MEMORY;
    FT_TRY(find_bytes(p, source, &p->left_out, &all));
    const char *bytes = p->left_out;
    if (bytes != NULL && all)
        return ft_fail(FT_INVALID, p->name, "all columns of this Parquet file hold bytes, not texts or numbers: %.300s",
                       bytes);
    const char *query = ft_arena_format(&p->arena, "SELECT CAST(to_json(t) AS VARCHAR) FROM (SELECT *%s%s%s FROM %s) t",
                                        bytes != NULL ? " EXCLUDE (" : "", bytes != NULL ? bytes : "",
                                        bytes != NULL ? ")" : "", source);
    return query == NULL ? FT_NO_MEMORY : begin_query(p, query);
}

// What there is to say of a file that nobody can read here.
static ft_status no_library(const char *name) {
    const ft_status status = ft_refuse_kind(name, magic, sizeof magic - 1);
    ft_hint(
        "where DuckDB's library is, it is read as it is: libduckdb.so where the loader looks, or FTENGINE_DUCKDB=FILE");
    return status;
}

ft_status ft_parquet_open(int file, const char *name, ft_parquet **parquet) {
    const ft_duckdb *duckdb;
    bool absent;
    *parquet = NULL;
    FT_TRY(ft_duckdb_load(&duckdb, &absent));
    if (absent) return no_library(name);
    ft_parquet *p = ft_calloc(1, sizeof *p, "a Parquet file");
    if (p == NULL) return FT_NO_MEMORY;
    p->duckdb = duckdb;
    p->name = name;
    snprintf(p->path, sizeof p->path, "/dev/fd/%d", file);
    const ft_status status = begin(p);
    if (status == FT_OK)
        *parquet = p;
    else
        ft_parquet_close(p);
    return status;
}

ft_status ft_parquet_read(ft_parquet *p, char *out, size_t room, size_t *got, bool *ended) {
    *got = 0;
    *ended = false;
    while (*got < room) {
        if (p->row == p->rows) {
            bool found;
            FT_TRY(next_chunk(p, &found));
            *ended = !found && *got == 0;
            if (!found) return FT_OK;
        }
        size_t length;
        const char *text = text_of(p, 0, p->row, &length);
        size_t bytes = length - p->taken;
        if (bytes > room - *got) bytes = room - *got;
        if (bytes > 0) memcpy(out + *got, text + p->taken, bytes);
        *got += bytes;
        p->taken += bytes;
        if (p->taken < length || *got == room) return FT_OK; // its end comes next time
        out[(*got)++] = '\n';
        p->row++;
        p->taken = 0;
    }
    return FT_OK;
}

const char *ft_parquet_left_out(const ft_parquet *p) { return p->left_out; }

size_t ft_parquet_peek(const char *path, char *out, size_t room) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ft_parquet *p;
    size_t got = 0, used = 0;
    bool ended = false;
    ft_status status = ft_parquet_open(file, path, &p);
    while (status == FT_OK && !ended && used < room) {
        status = ft_parquet_read(p, out + used, room - used, &got, &ended);
        used += got;
    }
    if (status != FT_OK) ft_error_clear(); // who reads the file has it again
    ft_parquet_close(p);
    close(file);
    return status == FT_OK ? used : 0;
}

void ft_parquet_close(ft_parquet *p) {
    if (p == NULL) return;
    end_query(p);
    if (p->connection != NULL) p->duckdb->disconnect(&p->connection);
    if (p->database != NULL) p->duckdb->close(&p->database);
    if (p->config != NULL) p->duckdb->destroy_config(&p->config);
    ft_arena_free(&p->arena);
    free(p);
}
