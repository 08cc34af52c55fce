// axis.h - an axis of a picture: where values lie on it, and which of them are written beside it.
#ifndef FT_AXIS_H
#define FT_AXIS_H

// Steps are whole numbers.
typedef enum ft_unit { FT_UNIT_NUMBER = 0, FT_UNIT_STEPS, FT_UNIT_BYTES, FT_UNIT_SECONDS } ft_unit;
typedef enum ft_scale { FT_SCALE_LINEAR = 0, FT_SCALE_LOG, FT_SCALE_CHOICES } ft_scale;

typedef struct ft_axis {
    ft_scale scale;
    ft_unit unit;
    double low, high;     // values at its ends, low < high; LOG: above 0; CHOICES: -0.5 and choice_count - 0.5
    const char **choices; // CHOICES: value k is the k-th of them
    int choice_count;
} ft_axis;

// The axis on which values from low to high lie, with a little room around them, also when they are one, or none (low > high).
// LOG becomes LINEAR when low is not above 0.
ft_axis ft_axis_around(ft_scale scale, ft_unit unit, double low, double high);
ft_axis ft_axis_of_choices(const char **choices, int count);

// 0 at low, 1 at high; what lies beyond an end is put there. The value must not be NaN.
double ft_axis_place(const ft_axis *axis, double value);

// Where something is written beside it: ascending, at most about `parts` + 1 of them, of choices all.
enum { FT_AXIS_TICKS = 24 };
typedef struct ft_tick {
    double place;
    int choice; // CHOICES: which one; its text may be long. Else -1
    char text[32];
} ft_tick;
int ft_axis_ticks(const ft_axis *axis, int parts, ft_tick ticks[FT_AXIS_TICKS]);

// The smallest of 1, 2, 5 times a power of ten that cuts `span` in at most `parts`; of bytes the smallest power of two, of steps
// at least 1.
double ft_nice_step(double span, int parts, ft_unit unit);

#endif
