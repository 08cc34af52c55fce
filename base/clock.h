// clock.h - how long something takes.
#ifndef FT_CLOCK_H
#define FT_CLOCK_H

double ft_now(void); // monotonic seconds, from a point that means nothing: differences count

#endif
