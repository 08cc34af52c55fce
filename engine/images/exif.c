// exif.c - which way up a picture is: tag 0x0112 in the first directory of a TIFF structure.
#include "engine/images/formats.h"

#include <stdbool.h>
#include <string.h>

enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12, HEADER = 8 };

static uint32_t number(const uint8_t *at, int bytes, bool little) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint32_t)at[i] << 8 * (little ? i : bytes - 1 - i);
    return value;
}

int ft_exif_orientation(const uint8_t *tiff, size_t length) {
    if (length < HEADER) return 1;
    const bool little = memcmp(tiff, "II*\0", 4) == 0;
    if (!little && memcmp(tiff, "MM\0*", 4) != 0) return 1;
    const size_t directory = number(tiff + 4, 4, little);
    if (directory > length - 2 || length - directory < 2) return 1;
    const uint32_t entries = number(tiff + directory, 2, little);
    for (uint32_t i = 0; i < entries; i++) {
        const size_t at = directory + 2 + (size_t)i * ENTRY;
        if (at + ENTRY > length) return 1;
        if (number(tiff + at, 2, little) != ORIENTATION) continue;
        const uint32_t value = number(tiff + at + 8, 2, little);
        return number(tiff + at + 2, 2, little) == SHORT && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
