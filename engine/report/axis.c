#include "engine/report/axis.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

double ft_nice_step(double span, int parts, ft_unit unit) {
    if (unit == FT_UNIT_BYTES) return exp2(ceil(log2(span / parts)));
    double raw = span / parts, power = pow(10, floor(log10(raw)));
    double step = raw <= power ? power : raw <= 2 * power ? 2 * power : raw <= 5 * power ? 5 * power : 10 * power;
    return unit == FT_UNIT_STEPS && step < 1 ? 1 : step;
}

// ---- ends ---------------------------------------------------------------------------------------------------------------

ft_axis ft_axis_around(ft_scale scale, ft_unit unit, double low, double high) {
    const double most = 1e300; // so that no span is infinite
    if (!(low <= high)) low = scale == FT_SCALE_LOG, high = low + 1;
    low = fmin(fmax(low, -most), most);
    high = fmin(fmax(high, -most), most);
    if (scale == FT_SCALE_LOG && low >= 1 / most) {
        double room = high / low > 1 + 1e-6 ? pow(high / low, 0.04) : 1.5;
        return (ft_axis){.scale = scale, .unit = unit, .low = low / room, .high = high * room};
    }
    double span = high - low;
    if (span <= 1e-6 * fmax(fabs(low), fabs(high))) span = 0; // rounding, not news
    double room = span > 0 ? 0.05 * span : fmax(0.1 * fabs(high), unit == FT_UNIT_NUMBER ? 1e-12 : 0.5);
    return (ft_axis){.unit = unit, .low = low - room, .high = high + room};
}

ft_axis ft_axis_of_choices(const char **choices, int count) {
    return (ft_axis){.scale = FT_SCALE_CHOICES, .low = -0.5, .high = count - 0.5, .choices = choices, .choice_count = count};
}

double ft_axis_place(const ft_axis *a, double value) {
    double place = a->scale != FT_SCALE_LOG ? (value - a->low) / (a->high - a->low)
                   : value > a->low         ? (log(value) - log(a->low)) / (log(a->high) - log(a->low))
                                            : 0;
    return fmin(fmax(place, 0), 1);
}

// ---- what is written beside it ------------------------------------------------------------------------------------------

static void tick_text(double value, ft_unit unit, char out[32]) {
    if (unit == FT_UNIT_BYTES) {
        static const struct {
            double size;
            const char *name;
        } units[] = {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {0, "B"}};
        int k = 0;
        while (value < units[k].size)
            k++;
        snprintf(out, 32, "%.9g %s", units[k].size > 0 ? value / units[k].size : value, units[k].name);
        if (value == 0) snprintf(out, 32, "0");
    } else if (fabs(value) >= 1e4 && fabs(value) < 1e12) {
        const char *unit_name = fabs(value) >= 1e6 ? "M" : "k";
        snprintf(out, 32, "%.9g%s", value / (fabs(value) >= 1e6 ? 1e6 : 1e3), unit_name);
    } else {
        snprintf(out, 32, "%.9g%s", value, unit == FT_UNIT_SECONDS ? " s" : "");
    }
}

static int put(const ft_axis *a, double value, ft_tick ticks[FT_AXIS_TICKS], int count) {
    if (count == FT_AXIS_TICKS) return count;
    ticks[count] = (ft_tick){.place = ft_axis_place(a, value), .choice = -1};
    tick_text(value, a->unit, ticks[count].text);
    return count + 1;
}

static int even_ticks(const ft_axis *a, int parts, ft_tick ticks[FT_AXIS_TICKS]) {
    double step = ft_nice_step(a->high - a->low, parts, a->unit);
    int count = 0;
    for (double k = ceil(a->low / step - 1e-9); k * step <= a->high + step * 1e-9 && count < FT_AXIS_TICKS; k++)
        if (a->unit != FT_UNIT_BYTES || k >= 0) count = put(a, k * step + 0.0, ticks, count); // no -0
    return count;
}

// Powers of ten, each or every few; over few of them 2 and 5 times such a power too; and within one what is even.
static int log_ticks(const ft_axis *a, int parts, ft_tick ticks[FT_AXIS_TICKS]) {
    const double first = floor(log10(a->low)), last = ceil(log10(a->high));
    const double sets[2][3] = {{1, 2, 5}, {1}};
    for (int set = 0; set < 2; set++) {
        double apart = set == 0 ? 1 : fmax(1, ceil((last - first) / parts));
        int count = 0;
        for (double power = first; power <= last && count < FT_AXIS_TICKS; power += apart)
            for (int k = 0; k < (set == 0 ? 3 : 1); k++) {
                double value = sets[set][k] * pow(10, power);
                bool inside = value >= a->low * (1 - 1e-9) && value <= a->high * (1 + 1e-9);
                if (inside && (a->unit != FT_UNIT_STEPS || value >= 1)) count = put(a, value, ticks, count);
            }
        if (count >= 2 && count <= parts + 1) return count;
    }
    return even_ticks(a, parts, ticks);
}

int ft_axis_ticks(const ft_axis *a, int parts, ft_tick ticks[FT_AXIS_TICKS]) {
    if (a->scale == FT_SCALE_LOG) return log_ticks(a, parts, ticks);
    if (a->scale == FT_SCALE_LINEAR) return even_ticks(a, parts, ticks);
    int apart = (a->choice_count + FT_AXIS_TICKS - 1) / FT_AXIS_TICKS, count = 0;
    for (int k = 0; k < a->choice_count; k += apart)
        ticks[count++] = (ft_tick){.place = ft_axis_place(a, k), .choice = k};
    return count;
}
