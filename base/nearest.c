// nearest.c - edit distance, for "did you mean".
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define LONGEST_WORD 64

static int lower(char c) { return tolower((unsigned char)c); }

// Insertions, deletions, replacements and swaps of two neighbours between a and b, upper and lower case being the same.
static int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    int rows[3][LONGEST_WORD + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            int least = last[j - 1] + !same;
            if (last[j] + 1 < least) least = last[j] + 1;
            if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped && before[j - 2] + 1 < least) least = before[j - 2] + 1;
            now[j] = least;
        }
        int *oldest = before;
        before = last, last = now, now = oldest;
    }
    return last[b_length];
}

int ft_nearer(const char *word, const char *name, size_t length, int bound) {
    size_t word_length = strlen(word);
    if (word_length > LONGEST_WORD || length > LONGEST_WORD) return bound;
    size_t apart = word_length > length ? word_length - length : length - word_length;
    if (apart >= (size_t)bound) return bound; // as many letters to insert or delete at least
    int distance = edit_distance(word, word_length, name, length);
    return distance < bound ? distance : bound;
}

int ft_nearest_bound(const char *word) { return (int)(strlen(word) / 3) + 1; }

const char *ft_nearest(const char *word, int count, const char *const *names) {
    int bound = ft_nearest_bound(word);
    const char *found = NULL;
    for (int i = 0; i < count; i++) {
        int distance = ft_nearer(word, names[i], strlen(names[i]), bound);
        if (distance < bound) bound = distance, found = names[i];
    }
    return found;
}
