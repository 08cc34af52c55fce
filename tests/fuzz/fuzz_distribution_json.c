// fuzz_distribution_json.c - the text that a study file of others keeps beside every parameter: read without trust;
// what was taken is written again and read back equal.
#include "hpo/storage/distribution_json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (text == NULL) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    ft_arena arena = {0};
    ft_distribution first, second;
    if (ft_distribution_from_json(text, "fuzz", &arena, &first) == FT_OK) {
        char *again = NULL;
        if (ft_distribution_to_json(&first, &again) != FT_OK) abort();
        if (ft_distribution_from_json(again, "fuzz", &arena, &second) != FT_OK) abort();
        if (!ft_distribution_equal(&first, &second)) abort();
        free(again);
    } else if (ft_error_code() != FT_INVALID || ft_error_message()[0] == '\0') { // memory there is
        abort();
    }
    ft_error_clear();
    ft_arena_free(&arena);
    free(text);
    return 0;
}
