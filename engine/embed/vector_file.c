#include "engine/embed/vector_file.h"

#include "base/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// numpy's format 1.0: magic, length of the header in two bytes, the header as a Python dict, filled up with blanks so that the numbers
// begin at a multiple of 64. How many vectors there are is known at the end, so that the header has room for any count.
enum { HEADER = 128, FRONT = 10 };

static void write_header(const ft_vector_file *v, char header[HEADER + 1]) {
    memset(header, ' ', HEADER);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(HEADER - FRONT);
    header[9] = 0;
    const int length = snprintf(header + FRONT, HEADER - FRONT, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                                (long long)v->count, (long long)v->width);
    header[FRONT + length] = ' ';
    header[HEADER - 1] = '\n';
}

static const char *name_of(const ft_vector_file *v) { return v->path != NULL ? v->path : "standard output"; }

static ft_status written(const ft_vector_file *v, bool all) {
    if (all && !ferror(v->file.stream)) return FT_OK;
    return ft_fail_errno(FT_FAILED, errno, name_of(v), "cannot write the vectors");
}

ft_status ft_vector_file_open(ft_vector_file *v, const char *path, bool npy, int64_t width) {
    *v = (ft_vector_file){.path = path, .npy = npy, .width = width};
    if (path != NULL) FT_TRY(ft_atomic_open(&v->file, path));
    else v->file.stream = stdout;
    if (!npy) return FT_OK;
    char header[HEADER + 1];
    write_header(v, header);
    return written(v, fwrite(header, HEADER, 1, v->file.stream) == 1);
}

// Little-endian, whatever this machine is.
static bool put_number(FILE *out, float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    const unsigned char bytes[] = {(unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
    return fwrite(bytes, sizeof bytes, 1, out) == 1;
}

static bool put_line(const ft_vector_file *v, const char *id, const float *vector) {
    FILE *out = v->file.stream;
    json_t *name = id != NULL ? json_string(id) : NULL; // an id that is no UTF-8 has none
    char *text = name != NULL ? json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (id == NULL) fprintf(out, "{\"format_version\":1,\"id\":%lld,\"embedding\":[", (long long)v->count);
    else fprintf(out, "{\"format_version\":1,\"id\":%s,\"embedding\":[", text != NULL ? text : "null");
    free(text);
    json_decref(name);
    for (int64_t k = 0; k < v->width; k++) fprintf(out, "%s%.9g", k > 0 ? "," : "", (double)vector[k]);
    return fprintf(out, "]}\n") > 0;
}

ft_status ft_vector_file_add(ft_vector_file *v, const char *id, const float *vector) {
    bool all = true;
    if (v->npy)
        for (int64_t k = 0; all && k < v->width; k++) all = put_number(v->file.stream, vector[k]);
    else all = put_line(v, id, vector);
    v->count++;
    return written(v, all);
}

ft_status ft_vector_file_flush(ft_vector_file *v) { return written(v, fflush(v->file.stream) == 0); }

ft_status ft_vector_file_commit(ft_vector_file *v) {
    FT_TRY(ft_vector_file_flush(v));
    char header[HEADER + 1];
    write_header(v, header);
    if (v->npy) FT_TRY(ft_atomic_overwrite(&v->file, 0, header, HEADER));
    return v->path != NULL ? ft_atomic_commit(&v->file) : FT_OK;
}

void ft_vector_file_abort(ft_vector_file *v) {
    if (v->path != NULL) ft_atomic_abort(&v->file);
}
