// jpeg.c - JPEG files by libjpeg-turbo, with its defaults: the pixels that Pillow has.
#include "engine/images/formats.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
// behind it
#include <jerror.h>

enum { MOST_SCANS = 500, EXIF_MARKER = JPEG_APP0 + 1, LONGEST_MARKER = 0xFFFF };

typedef struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    ft_status status; // of what failed, with the error set
    ft_picture_file *file;
    ft_picture *picture;
    uint8_t *row; // of CMYK, memory of the library
} decoder;

static _Noreturn void leave(j_common_ptr jpeg) {
    decoder *d = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    d->errors.format_message(jpeg, text);
    d->status = d->errors.msg_code == JERR_OUT_OF_MEMORY ? ft_fail_memory(0, d->file->path)
                                                         : ft_fail(FT_INVALID, d->file->path, "broken JPEG picture: %.150s", text);
    longjmp(d->out, 1);
}

// Data that are missing, and what the library makes up in their place: pixels that were never in the picture.
static void warn(j_common_ptr jpeg, int level) {
    decoder *d = jpeg->client_data;
    const int code = d->errors.msg_code;
    if (level >= 0) return;
    if (code == JWRN_JPEG_EOF) {
        d->status = ft_fail(FT_INVALID, d->file->path, "truncated JPEG picture: the file ends in the middle of it");
        longjmp(d->out, 1);
    }
    if (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC || code == JWRN_ARITH_BAD_CODE) leave(jpeg);
}

static void quiet(j_common_ptr jpeg) { (void)jpeg; }

// A small file can ask for thousands of passes over a large picture.
static void count_scans(j_common_ptr jpeg) {
    decoder *d = jpeg->client_data;
    if (d->jpeg.input_scan_number <= MOST_SCANS) return;
    d->status = ft_fail(FT_INVALID, d->file->path, "JPEG picture of more than %d scans", MOST_SCANS);
    longjmp(d->out, 1);
}

static int orientation_of(const decoder *d) {
    static const char exif[6] = "Exif\0";
    for (jpeg_saved_marker_ptr m = d->jpeg.marker_list; m != NULL; m = m->next)
        if (m->marker == EXIF_MARKER && m->data_length > sizeof exif && memcmp(m->data, exif, sizeof exif) == 0)
            return ft_exif_orientation(m->data + sizeof exif, m->data_length - sizeof exif);
    return 1;
}

static uint8_t product(uint8_t a, uint8_t b) { // a b / 255, to the nearest, as Pillow has it
    const unsigned value = (unsigned)a * b + 128;
    return (uint8_t)(((value >> 8) + value) >> 8);
}

// Adobe's four inks are stored as what is left of the paper.
static void from_inks(const uint8_t *inks, int32_t width, uint8_t *pixels) {
    for (int32_t x = 0; x < width; x++) {
        const uint8_t light = inks[4 * x + 3];
        for (int c = 0; c < FT_PICTURE_CHANNELS; c++) {
            const uint8_t ink = (uint8_t)(255 - inks[4 * x + c]);
            pixels[FT_PICTURE_CHANNELS * x + c] = (uint8_t)(light - product(ink, light));
        }
    }
}

// By how much it may be made smaller on the way.
static unsigned divisor_of(const decoder *d) {
    const ft_picture_file *f = d->file;
    const bool lies = f->orientation >= 5; // on its side
    const uint64_t width = lies ? d->jpeg.image_height : d->jpeg.image_width, height = lies ? d->jpeg.image_width : d->jpeg.image_height;
    unsigned by = 8;
    if (f->least_width < 1 || f->least_height < 1) return 1;
    while (by > 1 && (width < by * (uint64_t)f->least_width || height < by * (uint64_t)f->least_height)) by /= 2;
    return by;
}

static void decode(decoder *d) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, d->file->bytes, d->file->length);
    jpeg_save_markers(jpeg, EXIF_MARKER, LONGEST_MARKER);
    jpeg_read_header(jpeg, TRUE);
    d->file->orientation = orientation_of(d);
    const bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    if (jpeg->jpeg_color_space == JCS_UNKNOWN) {
        d->status = ft_fail(FT_INVALID, d->file->path, "JPEG picture of %d components: grey, RGB and CMYK can be read", jpeg->num_components);
        return;
    }
    jpeg->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    d->progress.progress_monitor = count_scans;
    jpeg->progress = &d->progress;
    jpeg->scale_num = 1;
    jpeg->scale_denom = divisor_of(d);
    jpeg_calc_output_dimensions(jpeg);
    d->status = ft_picture_check(d->file, jpeg->image_width, jpeg->image_height);
    if (d->status == FT_OK) d->status = ft_picture_allocate(d->file, jpeg->output_width, jpeg->output_height, d->picture);
    if (d->status != FT_OK) return;
    jpeg_start_decompress(jpeg);
    const size_t stride = (size_t)d->picture->width * FT_PICTURE_CHANNELS;
    if (inks) d->row = jpeg->mem->alloc_large((j_common_ptr)jpeg, JPOOL_IMAGE, (size_t)d->picture->width * 4);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *pixels = d->picture->pixels + jpeg->output_scanline * stride;
        JSAMPROW row = inks ? d->row : pixels;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (inks) from_inks(d->row, d->picture->width, pixels);
    }
}

ft_status ft_jpeg_decode(ft_picture_file *file, ft_picture *picture) {
    decoder d = {.file = file, .picture = picture};
    d.jpeg.err = jpeg_std_error(&d.errors);
    d.jpeg.client_data = &d;
    d.errors.error_exit = leave;
    d.errors.emit_message = warn;
    d.errors.output_message = quiet;
    if (setjmp(d.out) == 0) decode(&d);
    jpeg_destroy_decompress(&d.jpeg);
    return d.status;
}
