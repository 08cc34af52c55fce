// draws.h - random numbers of pictures: a stream for every (seed, epoch, what it is for), whoever draws them and when.
#ifndef FT_DRAWS_H
#define FT_DRAWS_H

#include <stdint.h>

// What a stream is for. They are part of the random numbers: never renumber them.
typedef enum ft_draws_site {
    FT_DRAWS_CROP = 0,
    FT_DRAWS_FLIP = 1,
    FT_DRAWS_COLOURS = 2,
    FT_DRAWS_RANDAUGMENT = 3,
    FT_DRAWS_ERASING = 4,
    FT_DRAWS_MIX = 5, // of a batch, whose number takes the picture's place
} ft_draws_site;

typedef struct ft_draws {
    uint64_t key;
    uint32_t site, block;
    uint32_t word[4];
    int used; // of `word`
} ft_draws;

ft_draws ft_draws_of(uint64_t seed, int64_t epoch, int64_t picture, ft_draws_site site);
double ft_draw(ft_draws *draws); // uniform in [0, 1), 53 bits
double ft_draw_between(ft_draws *draws, double low, double high);
int64_t ft_draw_below(ft_draws *draws, int64_t end); // one of 0 .. end - 1
double ft_draw_beta(ft_draws *draws, double alpha);  // Beta(alpha, alpha), alpha > 0

#endif
