#include "engine/data/token_cache.h"

#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = {'F', 'T', 'T', 'O', 'K', 'E', 'N', 'S'};
enum { CHECKSUM_BYTES = 32, BYTE_ORDER_MARK = 0x01020304 };

typedef struct file_header {
    char magic[8];
    uint32_t version, byte_order;
    char key[64];
    int64_t examples, sequences, tokens, truncated;
    int32_t longest, paired; // paired: 0 or 1
    int64_t reads, moved, first_moved; // reads -1: they are not there
} file_header;
_Static_assert(sizeof(file_header) == 144, "the header is written as it lies in memory: it must have no holes");
_Static_assert(sizeof(file_header) % sizeof(int64_t) == 0, "arrays are read where they lie in the file");

// ---- hashing ------------------------------------------------------------------------------------------------------

static void hash_texts(ft_sha256_state *hash, const ft_table *table, const char *digest, int max_length,
                       const ft_long_text *rule) {
    const int64_t facts[] = {FT_TOKEN_CACHE_VERSION, max_length > 0 ? max_length : 0, table->rows,
                             table->pair != NULL, (int64_t)strlen(digest), rule->kind,
                             rule->kind == FT_LONG_WINDOWS ? rule->overlap : 0};
    ft_sha256_add(hash, facts, sizeof facts);
    ft_sha256_add(hash, digest, strlen(digest));
    for (int64_t i = 0; i < table->rows; i++) {
        uint64_t length =
            table->text_length[i]; // before the text: otherwise two tables could run together to the same bytes
        ft_sha256_add(hash, &length, sizeof length);
        ft_sha256_add(hash, table->text[i], length);
        if (table->pair == NULL) continue;
        length = table->pair_length[i];
        ft_sha256_add(hash, &length, sizeof length);
        ft_sha256_add(hash, table->pair[i], length);
    }
}

void ft_token_cache_want_of(const ft_table *table, const ft_tokenizer *tokenizer, int max_length, const ft_long_text *rule,
                            ft_token_cache_want *want) {
    memset(want, 0, sizeof *want);
    want->examples = table->rows;
    want->vocabulary = ft_tokenizer_vocabulary(tokenizer);
    want->max_length = max_length;
    want->paired = table->pair != NULL;
    want->windows = rule->kind == FT_LONG_WINDOWS;
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    hash_texts(&hash, table, ft_tokenizer_digest(tokenizer), max_length, rule);
    unsigned char digest[CHECKSUM_BYTES];
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, want->key);
}

void ft_token_cache_want_of_language(const ft_table *table, const char *digest, int32_t vocabulary, int max_length, const ft_long_text *rule,
                                     ft_token_cache_want *want) {
    *want = (ft_token_cache_want){.examples = table->rows, .vocabulary = vocabulary, .max_length = max_length, .reads = true};
    const char *const columns[] = {"language", table->format == FT_FORMAT_JSONL ? "json" : "cells", table->text_column,
                                   table->pair != NULL ? table->pair_column : ""};
    unsigned char bytes[CHECKSUM_BYTES];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) // what a cell is depends on these
        ft_sha256_add(&hash, columns[i] != NULL ? columns[i] : "", columns[i] != NULL ? strlen(columns[i]) + 1 : 1);
    hash_texts(&hash, table, digest, max_length, rule);
    ft_sha256_end(&hash, bytes);
    ft_sha256_hex(bytes, want->key);
}

// ---- the stream ---------------------------------------------------------------------------------------------------

static ft_status damaged(const char *what) { return ft_fail(FT_INVALID, NULL, "%s", what); }

static ft_status put(FILE *stream, ft_sha256_state *hash, const void *data, size_t bytes) {
    if (fwrite(data, 1, bytes, stream) != bytes) return ft_fail_errno(FT_FAILED, errno, NULL, "cannot write");
    ft_sha256_add(hash, data, bytes);
    return FT_OK;
}

static ft_status check_header(const file_header *header, uint64_t size, const ft_token_cache_want *want) {
    if (memcmp(header->magic, MAGIC, sizeof MAGIC) != 0) return damaged("it is no file of tokens");
    if (header->version != FT_TOKEN_CACHE_VERSION || header->byte_order != BYTE_ORDER_MARK)
        return damaged("it is of another version or machine");
    if (memcmp(header->key, want->key, sizeof header->key) != 0 || header->examples != want->examples || header->paired != want->paired)
        return damaged("it belongs to other texts");
    // Nothing is allocated that the file does not hold: the products cannot overflow once they are bounded by its size.
    uint64_t left = size - sizeof *header - CHECKSUM_BYTES, sequences = (uint64_t)header->sequences;
    if (header->examples < 0 || header->sequences < 0 || header->tokens < 0 || sequences + 1 > left / sizeof(int64_t))
        return damaged("its size is wrong");
    left -= (sequences + 1) * sizeof(int64_t);
    if (header->sequences < header->examples || (header->sequences > header->examples && !want->windows))
        return damaged("its counts are wrong");
    if (header->sequences > header->examples) {
        if (sequences > left / sizeof(int32_t)) return damaged("its size is wrong");
        left -= sequences * sizeof(int32_t);
    }
    if ((header->reads >= 0) != want->reads || header->reads < -1) return damaged("it belongs to other texts");
    if (want->reads) {
        const uint64_t read = 2 * sizeof(int32_t), bounds = (sequences + 1) * sizeof(int64_t);
        if (left < bounds || (uint64_t)header->reads > (left - bounds) / read) return damaged("its size is wrong");
        left -= bounds + (uint64_t)header->reads * read;
    }
    uint64_t each = sizeof(int32_t) + (want->paired ? 1 : 0);
    if (left % each != 0 || (uint64_t)header->tokens != left / each)
        return damaged("its size is wrong");
    return FT_OK;
}

// Every example has its sequences, one behind the other.
static bool examples_fit(const ft_dataset *read) {
    int64_t last = -1;
    for (int64_t i = 0; read->example != NULL && i < read->sequences; i++) {
        if (read->example[i] != last && read->example[i] != last + 1) return false;
        last = read->example[i];
    }
    return read->example == NULL || (read->example[0] == 0 && last == read->examples - 1);
}

// What is learned at a token is the one behind it.
static bool reads_fit(const ft_dataset *read, int64_t reads) {
    if (read->first_read[0] != 0 || read->first_read[read->sequences] != reads) return false;
    for (int64_t s = 0; s < read->sequences; s++) {
        const int64_t first = read->first_read[s], end = read->first_read[s + 1], length = read->offset[s + 1] - read->offset[s];
        if (first < 0 || end < first || end > reads) return false;
        for (int64_t r = first; r < end; r++) {
            const int32_t at = read->read_position[r];
            if (at < 0 || at >= length - 1 || (r > first && at <= read->read_position[r - 1])) return false;
            if (read->label[r] != read->ids[read->offset[s] + at + 1]) return false;
        }
    }
    return read->moved >= 0 && read->moved <= read->examples && read->first_moved >= 0 && (read->moved == 0 || read->first_moved < read->examples);
}

static ft_status check_numbers(const ft_dataset *read, const ft_token_cache_want *want) {
    int64_t longest = 0, most = want->max_length > 0 ? want->max_length : INT32_MAX;
    if (read->offset[0] != 0 || read->offset[read->sequences] != read->tokens) return damaged("its offsets are wrong");
    for (int64_t i = 0; i < read->sequences; i++) {
        // Offsets are compared before they are subtracted, or a hostile pair overflows.
        if (read->offset[i + 1] <= read->offset[i] || read->offset[i + 1] > read->tokens)
            return damaged("its offsets are wrong");
        int64_t length = read->offset[i + 1] - read->offset[i];
        if (length > most) return damaged("a sequence is too long");
        if (length > longest) longest = length;
    }
    for (int64_t i = 0; i < read->tokens; i++)
        if (read->ids[i] < 0 || read->ids[i] >= want->vocabulary) return damaged("an id is outside the vocabulary");
    if (!examples_fit(read)) return damaged("its windows are wrong");
    if (longest != read->longest || read->truncated < 0 || read->truncated > read->examples)
        return damaged("its counts are wrong");
    return FT_OK;
}

// The arrays of a file in memory, in which they stay.
static ft_status view(const char *bytes, uint64_t size, const ft_token_cache_want *want, ft_dataset *read) {
    file_header header;
    if (size < sizeof header + CHECKSUM_BYTES) return damaged("it ends early");
    memcpy(&header, bytes, sizeof header);
    FT_TRY(check_header(&header, size, want));
    unsigned char expected[CHECKSUM_BYTES];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    ft_sha256_add(&hash, bytes, (size_t)size - CHECKSUM_BYTES);
    ft_sha256_end(&hash, expected);
    if (memcmp(bytes + size - CHECKSUM_BYTES, expected, CHECKSUM_BYTES) != 0) return damaged("its checksum is wrong");
    read->examples = header.examples;
    read->sequences = header.sequences;
    read->tokens = header.tokens;
    read->truncated = header.truncated;
    read->longest = header.longest;
    read->offset = (int64_t *)(uintptr_t)(bytes + sizeof header);
    int64_t *bounds = read->offset + header.sequences + 1;
    if (want->reads) {
        read->first_read = read->first_row = bounds;
        bounds += header.sequences + 1;
    }
    read->ids = (int32_t *)bounds;
    int32_t *behind = read->ids + header.tokens;
    if (want->reads) {
        read->read_position = behind;
        read->label = behind + header.reads;
        behind += 2 * header.reads;
        read->reads_in_file = true;
        read->moved = header.moved;
        read->first_moved = header.first_moved;
    }
    if (header.sequences > header.examples) {
        read->example = behind;
        behind += header.sequences;
    }
    if (want->paired) read->types = (uint8_t *)behind;
    FT_TRY(check_numbers(read, want));
    return want->reads && !reads_fit(read, header.reads) ? damaged("its learned tokens are wrong") : FT_OK;
}

// A large file is mapped, so that it takes no memory that others could not have; a small one is read.
static ft_status hold(FILE *stream, uint64_t size, ft_dataset *read) {
    if (size > SIZE_MAX / 2) return damaged("its size is wrong");
    if (size > FT_SPILL_FROM && fileno(stream) >= 0) {
        void *mapped = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fileno(stream), 0);
        if (mapped != MAP_FAILED) {
            *read = (ft_dataset){.file = mapped, .file_bytes = (size_t)size, .file_mapped = true};
            return FT_OK;
        }
        if (errno == ENOMEM) return ft_fail_memory((size_t)size, "cached tokens"); // the heap has no more addresses either
    }
    void *bytes = ft_calloc((size_t)size + 1, 1, "cached tokens");
    if (bytes == NULL) return FT_NO_MEMORY;
    *read = (ft_dataset){.file = bytes, .file_bytes = (size_t)size};
    return fread(bytes, 1, (size_t)size, stream) == size ? FT_OK : damaged("it ends early");
}

ft_status ft_token_cache_read(FILE *stream, uint64_t size, const ft_token_cache_want *want, ft_dataset *dataset) {
    ft_dataset read = {0};
    ft_status status = hold(stream, size, &read);
    if (status == FT_OK) status = view(read.file, size, want, &read);
    if (status != FT_OK) {
        ft_dataset_free(&read);
        return status;
    }
    // From here on in any order: reading ahead (up to some MiB for a sequence) would push out what is needed next where there is little room.
    if (read.file_mapped) (void)madvise((void *)read.file, read.file_bytes, MADV_RANDOM);
    ft_dataset_free_tokens(dataset);
    dataset->file = read.file;
    dataset->file_bytes = read.file_bytes;
    dataset->file_mapped = read.file_mapped;
    if (want->reads) {
        ft_dataset_free_reads(dataset);
        dataset->reads_in_file = true;
        dataset->first_read = read.first_read;
        dataset->first_row = read.first_row;
        dataset->read_position = read.read_position;
        dataset->label = read.label;
        dataset->moved = read.moved;
        dataset->first_moved = read.first_moved;
    }
    dataset->examples = read.examples;
    dataset->sequences = read.sequences;
    dataset->tokens = read.tokens;
    dataset->truncated = read.truncated;
    dataset->longest = read.longest;
    dataset->offset = read.offset;
    dataset->ids = read.ids;
    dataset->types = read.types;
    dataset->example = read.example;
    return FT_OK;
}

ft_status ft_token_cache_write(FILE *stream, const ft_token_cache_want *want, const ft_dataset *dataset) {
    file_header header = {.version = FT_TOKEN_CACHE_VERSION,
                          .byte_order = BYTE_ORDER_MARK,
                          .examples = dataset->examples,
                          .sequences = dataset->sequences,
                          .tokens = dataset->tokens,
                          .truncated = dataset->truncated,
                          .longest = dataset->longest,
                          .paired = want->paired,
                          .reads = want->reads ? dataset->first_read[dataset->sequences] : -1,
                          .moved = want->reads ? dataset->moved : 0,
                          .first_moved = want->reads ? dataset->first_moved : 0};
    memcpy(header.magic, MAGIC, sizeof MAGIC);
    memcpy(header.key, want->key, sizeof header.key);
    unsigned char checksum[CHECKSUM_BYTES];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    ft_status status = put(stream, &hash, &header, sizeof header);
    if (status == FT_OK)
        status = put(stream, &hash, dataset->offset, ((size_t)dataset->sequences + 1) * sizeof *dataset->offset);
    const size_t reads = want->reads ? (size_t)header.reads : 0;
    if (status == FT_OK && want->reads)
        status = put(stream, &hash, dataset->first_read, ((size_t)dataset->sequences + 1) * sizeof *dataset->first_read);
    if (status == FT_OK) status = put(stream, &hash, dataset->ids, (size_t)dataset->tokens * sizeof *dataset->ids);
    if (status == FT_OK && reads > 0) status = put(stream, &hash, dataset->read_position, reads * sizeof *dataset->read_position);
    if (status == FT_OK && reads > 0) status = put(stream, &hash, dataset->label, reads * sizeof *dataset->label);
    if (status == FT_OK && dataset->example != NULL)
        status = put(stream, &hash, dataset->example, (size_t)dataset->sequences * sizeof *dataset->example);
    if (status == FT_OK && want->paired) status = put(stream, &hash, dataset->types, (size_t)dataset->tokens);
    ft_sha256_end(&hash, checksum);
    if (status == FT_OK && fwrite(checksum, 1, sizeof checksum, stream) != sizeof checksum)
        status = ft_fail_errno(FT_FAILED, errno, NULL, "cannot write");
    return status;
}

// ---- the directory ------------------------------------------------------------------------------------------------

static char *file_of(const char *directory, const ft_token_cache_want *want, ft_arena *arena) {
    char name[80];
    snprintf(name, sizeof name, "%s.tokens", want->key);
    return ft_path_join(arena, directory, name);
}

// A stream on a regular file; NULL with *error 0 when there is none. O_NONBLOCK: something else under this name, a pipe
// say, must not make us wait.
static FILE *open_regular(const char *path, uint64_t *size, int *error) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        *error = errno == ENOENT || errno == ENOTDIR ? 0 : errno;
        return NULL;
    }
    struct stat facts;
    if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        *error = EINVAL;
        close(descriptor);
        return NULL;
    }
    FILE *stream = fdopen(descriptor, "rb");
    if (stream == NULL) {
        *error = errno;
        close(descriptor);
        return NULL;
    }
    *size = (uint64_t)facts.st_size;
    return stream;
}

ft_status ft_token_cache_load(const char *directory, const ft_token_cache_want *want, ft_dataset *dataset,
                              bool *found) {
    *found = false;
    ft_arena arena = {0};
    ft_status status = FT_OK;
    const char *path = file_of(directory, want, &arena);
    if (path == NULL) return FT_NO_MEMORY;
    uint64_t size;
    int error = 0;
    FILE *stream = open_regular(path, &size, &error);
    if (stream != NULL) {
        status = ft_token_cache_read(stream, size, want, dataset);
        fclose(stream);
        *found = status == FT_OK;
        if (status != FT_OK && status != FT_NO_MEMORY) {
            ft_warn("the token cache file %s is not used and will be rewritten: %s", path, ft_error_message());
            ft_error_clear();
            status = FT_OK;
        }
    } else if (error != 0) {
        ft_warn("the token cache file %s cannot be read: %s", path, strerror(error));
    }
    ft_arena_free(&arena);
    return status;
}

static ft_status store(const char *path, const char *directory, const ft_token_cache_want *want,
                       const ft_dataset *dataset) {
    ft_atomic_file file = {0};
    struct stat facts;
    FT_TRY(ft_make_directories(directory));
    // An atomic write goes straight into a pipe or a device, which is right for output and wrong here: it could wait.
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return ft_fail(FT_FAILED, NULL, "%s is no regular file", path);
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = ft_token_cache_write(file.stream, want, dataset);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}

void ft_token_cache_store(const char *directory, const ft_token_cache_want *want, const ft_dataset *dataset, bool *stored) {
    ft_arena arena = {0};
    const char *path = file_of(directory, want, &arena);
    *stored = path != NULL && store(path, directory, want, dataset) == FT_OK;
    if (!*stored) {
        ft_warn("the tokenised text is not cached in %s: %s", directory, ft_error_message());
        ft_error_clear();
    }
    ft_arena_free(&arena);
}
