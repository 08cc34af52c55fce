// nearest.h - the name that a misspelt word may have meant.
#ifndef FT_NEAREST_H
#define FT_NEAREST_H

#include <stddef.h>

// The nearest of `count` names to `word`, the first of those as near, or NULL: at most a third of its letters inserted,
// deleted, replaced or swapped with their neighbour, upper and lower case being the same. Nothing is near a word of more than
// 64 bytes. Used by every parser.
const char *ft_nearest(const char *word, int count, const char *const *names);

// The same for names that lie in no array: begin with this bound, and whatever lowers it is the nearest so far.
int ft_nearest_bound(const char *word);
// The distance of `name` (so many bytes of it) from `word` when it is below `bound`, else `bound`; a bound of 1 asks for
// the very word.
int ft_nearer(const char *word, const char *name, size_t length, int bound);

#endif
