#include "hpo/search/history/distribution.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double INT_LIMIT = 9007199254740992.0; // 2^53

void ft_shortest_double(double value, char *out) {
    if (value == floor(value) && fabs(value) < 1e15) { // 100, where %.1g has 1e+02
        snprintf(out, 32, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value) return;
    }
}

// ---- Exact decimals ---------------------------------------------------------------------------------------------
// In binary 0.3 - 0.0 is no multiple of 0.1. People mean the printed numbers, and so does Optuna.

typedef struct decimal {
    __int128 digits;
    int exponent; // value = digits * 10^exponent
} decimal;

static decimal decimal_of(double value) {
    char text[32];
    ft_shortest_double(value, text);
    decimal d = {0, 0};
    bool negative = false, fraction = false;
    const char *p = text;
    for (; *p != '\0' && *p != 'e'; p++) {
        if (*p == '-') {
            negative = true;
        } else if (*p == '.') {
            fraction = true;
        } else {
            d.digits = d.digits * 10 + (*p - '0');
            d.exponent -= fraction;
        }
    }
    if (*p == 'e') d.exponent += atoi(p + 1);
    if (negative) d.digits = -d.digits;
    if (d.digits == 0) d.exponent = 0;
    return d;
}

// Rescales to a smaller exponent; false when the digits leave the range in which sums cannot overflow.
static bool rescale(decimal *d, int exponent) {
    const __int128 limit = (__int128)1000000000000000000 * 1000000000000000000; // 10^36
    if (d->digits == 0) d->exponent = exponent;
    for (; d->exponent > exponent; d->exponent--) {
        if (d->digits >= limit / 10 || d->digits <= -(limit / 10)) return false;
        d->digits *= 10;
    }
    return true;
}

static double decimal_value(decimal d) {
    char digits[48], text[64];
    int n = 0;
    bool negative = d.digits < 0;
    unsigned __int128 rest = negative ? -(unsigned __int128)d.digits : (unsigned __int128)d.digits;
    do {
        digits[n++] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest != 0);
    char *p = text;
    if (negative) *p++ = '-';
    while (n > 0)
        *p++ = digits[--n];
    snprintf(p, 16, "e%d", d.exponent);
    return strtod(text, NULL);
}

// low, high and step with one exponent; false when the step is too small for that.
static bool decimals_of(double low, double high, double step, decimal d[3]) {
    d[0] = decimal_of(low);
    d[1] = decimal_of(high);
    d[2] = decimal_of(step);
    int exponent = d[0].exponent;
    for (int i = 1; i < 3; i++)
        exponent = d[i].exponent < exponent ? d[i].exponent : exponent;
    return rescale(&d[0], exponent) && rescale(&d[1], exponent) && rescale(&d[2], exponent);
}

static ft_status lower_to_step(const char *where, double low, double *high, double step) {
    decimal d[3];
    if (!decimals_of(low, *high, step, d))
        return ft_fail(FT_INVALID, where, "step %g is too small for the range %g to %g", step, low, *high);
    __int128 rest = (d[1].digits - d[0].digits) % d[2].digits;
    if (rest == 0) return FT_OK; // keeps high bit by bit
    d[1].digits -= rest;
    *high = decimal_value(d[1]);
    return FT_OK;
}

// ---- Makers -----------------------------------------------------------------------------------------------------

ft_status ft_distribution_float(const char *where, double low, double high, bool log, double step,
                                ft_distribution *out) {
    if (!isfinite(low) || !isfinite(high))
        return ft_fail(FT_INVALID, where, "the range %g to %g must be finite", low, high);
    if (low > high) return ft_fail(FT_INVALID, where, "low must not exceed high, got %g and %g", low, high);
    if (!(step >= 0) || isinf(step)) return ft_fail(FT_INVALID, where, "step must be positive, got %g", step);
    if (log && step != 0) {
        ft_status status = ft_fail(FT_INVALID, where, "log and step do not go together");
        ft_hint("leave out one of them");
        return status;
    }
    if (log && low <= 0) return ft_fail(FT_INVALID, where, "low must be above 0 with log, got %g", low);
    if (step != 0) FT_TRY(lower_to_step(where, low, &high, step));
    *out = (ft_distribution){.kind = FT_FLOAT, .log = log, .low = low, .high = high, .step = step};
    return FT_OK;
}

ft_status ft_distribution_int(const char *where, int64_t low, int64_t high, bool log, int64_t step,
                              ft_distribution *out) {
    if (low > high)
        return ft_fail(FT_INVALID, where, "low must not exceed high, got %lld and %lld", (long long)low,
                       (long long)high);
    if ((double)low < -INT_LIMIT || (double)high > INT_LIMIT)
        return ft_fail(FT_INVALID, where, "integers beyond 2^53 cannot be stored");
    if (step < 1) return ft_fail(FT_INVALID, where, "step must be at least 1, got %lld", (long long)step);
    if (log && step != 1)
        return ft_fail(FT_INVALID, where, "an integer with log has step 1, got %lld", (long long)step);
    if (log && low < 1) return ft_fail(FT_INVALID, where, "low must be at least 1 with log, got %lld", (long long)low);
    high = low + (high - low) / step * step;
    *out =
        (ft_distribution){.kind = FT_INT, .log = log, .low = (double)low, .high = (double)high, .step = (double)step};
    return FT_OK;
}

static ft_status copy_choices(ft_arena *arena, const ft_choice *choices, int count, ft_distribution *out) {
    ft_choice *copy = ft_arena_alloc(arena, (size_t)count * sizeof *copy);
    if (copy == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        copy[i] = choices[i];
        if (choices[i].kind != FT_CHOICE_TEXT) {
            copy[i].text = NULL;
            continue;
        }
        copy[i].text = ft_arena_strdup(arena, choices[i].text);
        if (copy[i].text == NULL) return FT_NO_MEMORY;
    }
    *out = (ft_distribution){.kind = FT_CATEGORICAL, .choices = copy, .choice_count = count};
    return FT_OK;
}

ft_status ft_distribution_categorical(const char *where, ft_arena *arena, const ft_choice *choices, int count,
                                      ft_distribution *out) {
    if (count < 1) return ft_fail(FT_INVALID, where, "a list of choices needs at least one");
    for (int i = 0; i < count; i++) {
        const char *text = choices[i].kind == FT_CHOICE_TEXT ? choices[i].text : "";
        if (ft_utf8_valid_prefix(text, strlen(text)) != strlen(text))
            return ft_fail(FT_INVALID, where, "choice %d is not UTF-8, which studies are written in", i + 1);
    }
    for (int i = 1; i < count; i++)
        for (int j = 0; j < i; j++)
            if (ft_choice_equal(&choices[i], &choices[j]))
                return ft_fail(FT_INVALID, where, "choice %d equals choice %d (1, 1.0 and true are equal)", i + 1,
                               j + 1);
    return copy_choices(arena, choices, count, out);
}

ft_status ft_distribution_copy(ft_arena *arena, const ft_distribution *from, ft_distribution *out) {
    if (from->kind == FT_CATEGORICAL) return copy_choices(arena, from->choices, from->choice_count, out);
    *out = *from;
    return FT_OK;
}

// ---- Questions --------------------------------------------------------------------------------------------------

bool ft_distribution_contains(const ft_distribution *d, double value) {
    if (d->kind == FT_CATEGORICAL)
        return value > -1 && value < d->choice_count; // the fraction is cut off, as in Optuna
    if (!(value >= d->low && value <= d->high)) return false;
    if (d->step == 0) return true;
    if (d->kind == FT_INT) return fmod(value - d->low, d->step) == 0;
    double k = (value - d->low) / d->step;
    return fabs(k - nearbyint(k)) < 1e-8;
}

bool ft_distribution_single(const ft_distribution *d) {
    if (d->kind == FT_CATEGORICAL) return d->choice_count == 1;
    if (d->low == d->high) return true;
    if (d->high - d->low > 1.5 * d->step) return false;
    // Integers: the maker lowered high to whole steps. So it did for floats, but the sum was rounded: 7.5 + one step of
    // 0.15000000000000002 is stored as 7.65, and in decimals that is less than a step away.
    decimal exact[3];
    return d->kind == FT_FLOAT && d->step != 0 && decimals_of(d->low, d->high, d->step, exact) &&
           exact[1].digits - exact[0].digits < exact[2].digits;
}

double ft_distribution_single_value(const ft_distribution *d) { return d->kind == FT_CATEGORICAL ? 0 : d->low; }

static bool same_choices(const ft_distribution *a, const ft_distribution *b) {
    if (a->choice_count != b->choice_count) return false;
    for (int i = 0; i < a->choice_count; i++)
        if (!ft_choice_equal(&a->choices[i], &b->choices[i])) return false;
    return true;
}

bool ft_distribution_equal(const ft_distribution *a, const ft_distribution *b) {
    return ft_distribution_compatible(a, b) && a->low == b->low && a->high == b->high && a->step == b->step;
}

bool ft_distribution_compatible(const ft_distribution *a, const ft_distribution *b) {
    return a->kind == b->kind && a->log == b->log && same_choices(a, b);
}

double ft_distribution_size(const ft_distribution *d) {
    if (d->kind == FT_CATEGORICAL) return d->choice_count;
    if (ft_distribution_single(d)) return 1;
    return d->step == 0 ? INFINITY : nearbyint((d->high - d->low) / d->step) + 1;
}

bool ft_choice_equal(const ft_choice *a, const ft_choice *b) {
    bool a_number = a->kind != FT_CHOICE_NULL && a->kind != FT_CHOICE_TEXT;
    bool b_number = b->kind != FT_CHOICE_NULL && b->kind != FT_CHOICE_TEXT;
    if (!a_number || !b_number)
        return a->kind == b->kind && (a->kind == FT_CHOICE_NULL || strcmp(a->text, b->text) == 0);
    if (a->kind == FT_CHOICE_FLOAT && b->kind == FT_CHOICE_FLOAT)
        return a->number == b->number || (isnan(a->number) && isnan(b->number));
    if (a->kind != FT_CHOICE_FLOAT && b->kind != FT_CHOICE_FLOAT) return a->integer == b->integer;
    double number = a->kind == FT_CHOICE_FLOAT ? a->number : b->number;
    int64_t integer = a->kind == FT_CHOICE_FLOAT ? b->integer : a->integer;
    // Exact for large integers too: equal as doubles, and the double is that integer.
    return number >= -9.2e18 && number <= 9.2e18 && number == (double)integer && (int64_t)number == integer;
}

int ft_distribution_find_choice(const ft_distribution *d, const ft_choice *choice) {
    for (int i = 0; i < d->choice_count; i++)
        if (ft_choice_equal(&d->choices[i], choice)) return i;
    return -1;
}
