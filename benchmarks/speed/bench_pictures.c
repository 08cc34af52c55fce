// bench_pictures.c - from files to the numbers that a model reads, on one core: bench_pictures RULES_DIR FOLDER
// [repeats] [resize] bench_pictures.py runs it beside torchvision with Pillow. RULES_DIR holds
// preprocessor_config.json. Every file of FOLDER is read, decoded, resized and normalised (with `resize`: it is resized
// alone, from pixels that are there). Prints the pictures and the seconds of processor time of every repeat.
#include "base/files.h"
#include "engine/images/rules.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 4096 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int failed(void) {
    fprintf(stderr, "error: %s: %s\n", ft_error_where(), ft_error_message());
    return (int)ft_error_code();
}

// Channel by channel, as a tensor [3, height, width].
static void normalise(const ft_picture_rules *r, const uint8_t *pixels, float *out) {
    const size_t count = (size_t)r->width * (size_t)r->height;
    for (int c = 0; c < FT_PICTURE_CHANNELS; c++)
        for (size_t i = 0; i < count; i++)
            *out++ = r->value[c][pixels[i * FT_PICTURE_CHANNELS + (size_t)c]];
}

static int list(const char *folder, char (*paths)[1024]) {
    DIR *d = opendir(folder);
    int count = 0;
    for (struct dirent *e; d != NULL && count < MOST && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') snprintf(paths[count++], sizeof paths[0], "%s/%s", folder, e->d_name);
    if (d != NULL) closedir(d);
    return count;
}

int main(int argc, char **argv) {
    static char paths[MOST][1024];
    static ft_picture whole[MOST];
    ft_picture_rules rules;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_pictures RULES_DIR FOLDER [repeats] [resize]\n");
        return 2;
    }
    const int repeats = argc > 3 ? atoi(argv[3]) : 5, count = list(argv[2], paths);
    const int resizes = argc > 4 && strcmp(argv[4], "resize") == 0;
    if (ft_picture_rules_load(argv[1], &rules) != FT_OK) return failed();
    const size_t bytes = (size_t)rules.width * (size_t)rules.height * FT_PICTURE_CHANNELS;
    uint8_t *pixels = malloc(bytes);
    float *values = malloc(bytes * sizeof *values);
    if (pixels == NULL || values == NULL || count == 0) return 1;
    for (int i = 0; resizes && i < count; i++)
        if (ft_picture_read(paths[i], &whole[i]) != FT_OK) return failed();
    printf("%d\n", count);
    for (int k = 0; k < repeats; k++) {
        const double start = now();
        for (int i = 0; i < count; i++) {
            ft_picture picture = whole[i];
            if (!resizes && ft_picture_read(paths[i], &picture) != FT_OK) return failed();
            if (ft_picture_prepare(&rules, &picture, paths[i], pixels) != FT_OK) return failed();
            if (resizes) continue;
            normalise(&rules, pixels, values);
            ft_picture_free(&picture);
        }
        printf("%.6f\n", now() - start);
    }
    free(pixels);
    free(values);
    return 0;
}
