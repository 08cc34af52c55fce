// Any bytes as a configuration file. What is accepted is written and read back: the same values, and it stays accepted.
// The bytes behind the first NUL, if any, are an override.
#include "engine/config/options.h"
#include "hpo/space/options_study.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static char *written(const ft_config *config, size_t *size) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, size);
    check(stream != NULL && ft_config_write(config, false, false, stream) == FT_OK && fclose(stream) == 0);
    return text;
}

static void check_error(void) {
    check(ft_error_code() == FT_INVALID && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ft_config config, again;
    const uint8_t *nul = size == 0 ? NULL : memchr(input, '\0', size);
    check(ft_config_defaults_with(ft_study_sections, &config) == FT_OK);
    ft_error_clear();
    ft_status status = ft_config_apply_text(&config, (const char *)input, size, "fuzz.ini", "/fuzz");
    if (status != FT_OK) check_error();
    if (nul != NULL) { // a file with a NUL is none; its first half may be one
        check(status != FT_OK);
        size_t length = (size_t)(nul - input);
        char *override = strndup((const char *)nul + 1, size - length - 1);
        check(override != NULL);
        status = ft_config_apply_text(&config, (const char *)input, length, "fuzz.ini", "/fuzz");
        if (status == FT_OK && (status = ft_config_apply_override(&config, override)) != FT_OK)
            check(ft_error_code() == FT_INVALID && ft_error_message()[0] != '\0');
        free(override);
    }
    if (status == FT_OK) {
        size_t first_size, second_size;
        char *first = written(&config, &first_size);
        check(ft_config_defaults_with(ft_study_sections, &again) == FT_OK);
        if (ft_config_apply_text(&again, first, first_size, "again.ini", "/elsewhere") != FT_OK) {
            fprintf(stderr, "%s\n%s\n", first, ft_error_message());
            abort();
        }
        char *second = written(&again, &second_size);
        check(first_size == second_size && memcmp(first, second, first_size) == 0);
        free(first);
        free(second);
        ft_config_free(&again);
    }
    ft_config_free(&config);
    return 0;
}
