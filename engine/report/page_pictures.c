#include "engine/report/page_pictures.h"

#include "base/heap.h"
#include "engine/data/pictures/picture_files.h"
#include "engine/report/html.h"

#include <stdlib.h>

static int by_id(const void *a, const void *b) {
    const ft_page_picture *x = *(ft_page_picture *const *)a, *y = *(ft_page_picture *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

static ft_status make_thumbnail(const ft_picture_files *files, int64_t row, ft_page_picture *picture) {
    char where[FT_PICTURE_WHERE];
    ft_picture_bytes bytes;
    ft_picture whole;
    FT_TRY(ft_picture_files_read(files, row, &bytes));
    ft_status status = ft_picture_decode(bytes.bytes, bytes.length, ft_picture_files_where(files, row, where), &whole);
    ft_picture_bytes_free(&bytes);
    FT_TRY(status);
    status = ft_thumbnail_make(&whole, FT_PAGE_PICTURE_SIDE, &picture->thumbnail);
    ft_picture_free(&whole);
    return status;
}

// In the order of the data, in which archives are looked through.
static ft_status find_in(const char *source, int count, ft_page_picture **ordered, bool *missing) {
    const char **name = ft_calloc((size_t)count, sizeof *name, "pictures of a page");
    ft_table table = {0};
    ft_picture_files *files = NULL;
    for (int i = 0; name != NULL && i < count; i++) name[i] = ordered[i]->name;
    ft_status status = name != NULL ? ft_table_of_texts(count, name, NULL, source, &table) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_picture_files_open(source, &table, &files);
    for (int i = 0; i < count && status == FT_OK; i++) {
        status = make_thumbnail(files, i, ordered[i]);
        *missing = *missing || status == FT_INVALID;
        if (status == FT_INVALID) ft_error_clear(), status = FT_OK;
    }
    ft_picture_files_close(files);
    ft_table_free(&table);
    free(name);
    return status;
}

ft_status ft_page_find_pictures(const ft_run_record *run, const char *split, int count, ft_page_picture *pictures, const char **why) {
    const json_t *data = json_object_get(json_object_get(run->run, "data"), split);
    const char *source = json_string_value(json_object_get(data, "path"));
    bool missing = false;
    *why = NULL;
    if (source == NULL || count == 0) return FT_OK; // a run that has not ended
    ft_page_picture **ordered = ft_calloc((size_t)count, sizeof *ordered, "pictures of a page");
    if (ordered == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++) ordered[i] = &pictures[i];
    qsort(ordered, (size_t)count, sizeof *ordered, by_id);
    ft_status status = find_in(source, count, ordered, &missing);
    free(ordered);
    if (status == FT_INVALID) ft_error_clear(), missing = true, status = FT_OK;
    if (missing) *why = "Pictures that cannot be read any more are not shown.";
    return status;
}

void ft_page_free_pictures(int count, ft_page_picture *pictures) {
    for (int i = 0; i < count; i++) ft_thumbnail_free(&pictures[i].thumbnail);
}

static void write_base64(FILE *out, const uint8_t *bytes, size_t length) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        const size_t left = length - i;
        const unsigned group = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
        const char four[4] = {digits[group >> 18], digits[group >> 12 & 63], left > 1 ? digits[group >> 6 & 63] : '=', left > 2 ? digits[group & 63] : '='};
        fwrite(four, 1, sizeof four, out);
    }
}

void ft_page_picture_write(FILE *out, const ft_page_picture *picture) {
    const ft_thumbnail *t = &picture->thumbnail;
    if (t->bytes != NULL) {
        fprintf(out, "<img alt=\"\" width=\"%d\" height=\"%d\" src=\"data:image/jpeg;base64,", (int)t->width, (int)t->height);
        write_base64(out, t->bytes, t->length);
        fputs("\">", out);
    }
    ft_html_name(out, picture->name);
}
