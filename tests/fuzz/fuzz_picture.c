// Any bytes as a picture: what is accepted has all its pixels, what is not says so and leaves nothing.
#include "engine/images/picture.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ft_picture picture;
    const ft_status status = ft_picture_decode(input, size, "fuzz", &picture);
    if (status != FT_OK) {
        check((status == FT_INVALID || status == FT_NO_MEMORY) && picture.pixels == NULL && ft_error_message()[0] != '\0');
        return 0;
    }
    const size_t bytes = (size_t)picture.width * (size_t)picture.height * FT_PICTURE_CHANNELS;
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += picture.pixels[i];
    check(sum <= bytes * 255);
    ft_picture_free(&picture);
    return 0;
}
