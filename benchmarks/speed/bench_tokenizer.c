// bench_tokenizer.c - speed of a tokenizer of any kind on one core: bench_tokenizer MODEL_DIR FILE [repeats]
// bench_tokenizer.py runs it beside the Hugging Face tokenizers.
// FILE is tab-separated with the text in the first column (its first line, the header, is skipped). Prints the best and
// the median of the repeats; reading and opening are not counted.
#include "base/files.h"
#include "engine/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Processor time: there is one thread, and a busy machine shall not count.
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int failed(void) {
    fprintf(stderr, "error: %s: %s\n", ft_error_where(), ft_error_message());
    return (int)ft_error_code();
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer MODEL_DIR FILE.tsv [repeats]\n");
        return 2;
    }
    int repeats = argc > 3 ? atoi(argv[3]) : 31;
    ft_tokenizer *t;
    char *data;
    size_t length, texts = 0, bytes = 0, tokens = 0;
    double start = now(), seconds[1000];
    if (repeats < 1 || repeats > 1000) repeats = 31;
    if (ft_tokenizer_open(argv[1], &t) != FT_OK) return failed();
    double opened = now() - start;
    if (ft_read_file(argv[2], 0, &data, &length) != FT_OK) return failed();
    ft_token_ids ids = {0};
    for (int r = 0; r < repeats; r++) {
        texts = bytes = tokens = 0;
        start = now();
        for (char *line = memchr(data, '\n', length), *end; line != NULL && ++line < data + length; line = end) {
            end = memchr(line, '\n', length - (size_t)(line - data));
            const char *stop = end != NULL ? end : data + length, *tab = memchr(line, '\t', (size_t)(stop - line));
            size_t n = (size_t)((tab != NULL ? tab : stop) - line);
            ids.count = 0;
            if (ft_tokenizer_encode(t, line, n, 512, &ids) != FT_OK) return failed();
            texts++, bytes += n, tokens += ids.count;
        }
        seconds[r] = now() - start;
    }
    qsort(seconds, (size_t)repeats, sizeof *seconds, by_value);
    double best = seconds[0], median = seconds[repeats / 2];
    printf("open %.1f ms; %zu texts, %zu bytes, %zu ids\n", 1e3 * opened, texts, bytes, tokens);
    printf("best   %.3f ms  %.0f texts/s  %.1f MB/s  %.2f M ids/s\n", 1e3 * best, (double)texts / best,
           1e-6 * (double)bytes / best, 1e-6 * (double)tokens / best);
    printf("median %.3f ms  %.0f texts/s  %.1f MB/s  %.2f M ids/s\n", 1e3 * median, (double)texts / median,
           1e-6 * (double)bytes / median, 1e-6 * (double)tokens / median);
    free(ids.ids);
    free(data);
    ft_tokenizer_close(t);
    return 0;
}
