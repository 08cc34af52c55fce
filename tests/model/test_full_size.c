// Models of real sizes, one a family, against transformers' float64 logits (tests/vectors/make_family_vectors.py). Weights are
// random. Seconds a model and up to 1.2 GB: run by `make test-full-size`, not by `make test`.
// ctest: label=full_size timeout=900
#include "tests/fixtures/seeded_weights.h"

#include "engine/train/job/run_plan.h"

#include <time.h>

static void check(void **state) {
    const char *name = *state;
    fixture f;
    char path[600];
    int length = snprintf(path, sizeof path, "%s/full_size/", FT_TEST_VECTORS);
    for (const char *c = name; *c != '\0'; c++) length += snprintf(path + length, 8, "%s", *c == '/' ? "--" : (char[]){*c, '\0'});
    snprintf(path + length, sizeof path - (size_t)length, ".safetensors");
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    open_seeded(&f, name, path, strstr(name, "xlarge") != NULL ? 2 : 0, 3); // its 24 layers are 3.5 GB
    int64_t n;
    float *want = expected(&f, "logits", &n), *got = calloc((size_t)n, sizeof *got);
    ft_batch_limits all = {0, 0};
    OK(predict_fixture(&f, all, got));
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)got[i] - want[i]));
    clock_gettime(CLOCK_MONOTONIC, &after);
    print_message("%-34s %6.1fM parameters, logits within %.1e, %.1f s\n", name, (double)f.model.parameters.real_total / 1e6, worst,
                  (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec));
    assert_close(name, got, want, n, 1e-5);
    free(want), free(got);
    close_fixture(&f);
}

#define MODEL(name) {name, check, NULL, NULL, (void *)(uintptr_t)name}

int main(void) {
    const struct CMUnitTest tests[] = {
        MODEL("bert-base-uncased"),       MODEL("roberta-base"),
        MODEL("xlm-roberta-base"),        MODEL("distilbert-base-uncased"),
        MODEL("google/electra-base-discriminator"), MODEL("microsoft/deberta-base"),
        MODEL("microsoft/deberta-v3-base"), MODEL("microsoft/deberta-v2-xlarge"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
