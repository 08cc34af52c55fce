// Any text as preprocessor_config.json: what is accepted makes numbers of a picture.
#include "engine/images/rules.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static const uint8_t pixels[5 * 3 * FT_PICTURE_CHANNELS] = {9, 200, 30};
    ft_picture_rules rules;
    const ft_status status = ft_picture_rules_parse((const char *)input, size, "fuzz", &rules);
    if (status != FT_OK) {
        check(ft_error_message()[0] != '\0');
        return 0;
    }
    check(rules.width > 0 && rules.height > 0);
    if ((int64_t)rules.width * rules.height > 1 << 20 || (rules.resizes && (rules.shortest > 1 << 10 || rules.to_width > 1 << 12))) return 0;
    uint8_t *out = malloc((size_t)rules.width * (size_t)rules.height * FT_PICTURE_CHANNELS);
    check(out != NULL);
    ft_picture picture = {.width = 5, .height = 3, .pixels = (uint8_t *)pixels}; // read alone
    ft_picture_prepare(&rules, &picture, "fuzz", out);
    free(out);
    return 0;
}
