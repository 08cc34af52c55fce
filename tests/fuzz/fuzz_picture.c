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
    ft_picture scaled; // what can be read whole can be read in part
    check(ft_picture_decode_scaled(input, size, "fuzz", 1 + picture.width / 3, 1 + picture.height / 5, &scaled) != FT_INVALID);
    check(scaled.width <= picture.width && scaled.height <= picture.height);
    ft_picture_free(&scaled);
    const size_t bytes = (size_t)picture.width * (size_t)picture.height * FT_PICTURE_CHANNELS;
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += picture.pixels[i];
    check(sum <= bytes * 255);
    ft_picture_free(&picture);
    return 0;
}
