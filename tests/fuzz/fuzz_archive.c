// Any bytes as a tar archive of samples and as a MATLAB file: what is accepted lies in the file, what is not says why and leaves nothing.
#include "engine/data/pictures/mat.h"
#include "engine/data/pictures/picture_files.h"
#include "engine/data/pictures/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static void check_refused(ft_status status) { check(status == FT_INVALID && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0'); }

static void read_mat(const uint8_t *input, size_t size) {
    ft_mat_vector v[2] = {{.name = "labels"}, {.name = "trnid"}};
    const ft_status status = ft_mat_parse(input, size, "fuzz", 2, v);
    if (status != FT_OK) check_refused(status);
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        check(status != FT_OK || v[i].value != NULL);
        for (int64_t k = 0; k < v[i].count; k++) sum ^= v[i].value[k];
    }
    check(sum >= INT64_MIN); // all of it was looked at
    ft_mat_free(2, v);
}

// Every picture of the table is found again, and its bytes are there.
static void read_pictures(const char *path, const ft_table *table) {
    ft_picture_files *files;
    const ft_status status = ft_picture_files_open(path, table, &files);
    if (status != FT_OK) {
        check_refused(status);
        return;
    }
    check(ft_picture_files_count(files) == table->rows);
    for (int64_t i = 0; i < table->rows; i++) {
        char where[FT_PICTURE_WHERE];
        ft_picture_bytes bytes;
        check(strcmp(ft_picture_files_name(files, i), table->text[i]) == 0 && ft_picture_files_where(files, i, where)[0] != '\0');
        check(ft_picture_files_read(files, i, &bytes) == FT_OK && bytes.bytes != NULL);
        ft_picture_bytes_free(&bytes);
    }
    ft_picture_files_close(files);
}

static void read_shards(const char *path, ft_table_label need) {
    const ft_table_request request = {.text = "", .label = "", .need = need, .pictures = true};
    ft_table table;
    const ft_status status = ft_shards_read(path, &request, &table);
    if (status != FT_OK) {
        check_refused(status);
        return;
    }
    check(table.rows > 0 && (need == FT_LABEL_IGNORED || table.label != NULL));
    read_pictures(path, &table);
    ft_table_free(&table);
}

// With every second input the sums of headers fit, so that what is behind them is read too.
static void mend_sums(uint8_t *bytes, size_t size) {
    enum { BLOCK = 512, SUM = 148, SUM_END = 156, MAGIC = 257 };
    for (size_t at = 0; size % 2 == 0 && at + BLOCK <= size; at += BLOCK) {
        unsigned sum = 0;
        char text[16];
        if (memcmp(bytes + at + MAGIC, "ustar", 5) != 0) continue;
        for (size_t i = 0; i < BLOCK; i++) sum += i >= SUM && i < SUM_END ? ' ' : bytes[at + i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(bytes + at + SUM, text, 7);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    char path[64] = "/tmp/fuzz_archive_XXXXXX.tar";
    read_mat(input, size);
    const int file = mkstemps(path, 4);
    uint8_t *bytes = malloc(size + 1);
    check(file >= 0 && bytes != NULL);
    memcpy(bytes, input, size);
    mend_sums(bytes, size);
    check(write(file, bytes, size) == (ssize_t)size);
    free(bytes);
    close(file);
    read_shards(path, FT_LABEL_REQUIRED);
    read_shards(path, FT_LABEL_IGNORED);
    unlink(path);
    return 0;
}
