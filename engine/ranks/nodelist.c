#include "engine/ranks/nodelist.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// Of ranges and lists; nobody has more, and a product of brackets stays below int64.
enum { MOST = 1 << 20, BRACKETS = 4, DIGITS = 9 };

static ft_status refuse(const char *where, const char *list, const char *what) {
    return ft_fail(FT_INVALID, where, "%s in '%.200s': names like n[01-03,7] separated by commas are expected", what,
                   list);
}

typedef struct bracket {
    const char *text; // behind '['
    size_t length;    // up to ']'
    int64_t count;
} bracket;

// 01: its value and how many digits it is written with.
static bool read_number(const char **at, const char *end, int64_t *value, int *digits) {
    *value = 0, *digits = 0;
    for (; *at < end && isdigit((unsigned char)**at) && *digits <= DIGITS; (*at)++, (*digits)++)
        *value = *value * 10 + (**at - '0');
    return *digits > 0 && *digits <= DIGITS;
}

// Walks over the ranges of a bracket. index >= 0: that element is written to `out`. *count: how many there are; false:
// it is none.
static bool walk(const bracket *b, int64_t index, char *out, size_t size, int64_t *count) {
    const char *at = b->text, *end = b->text + b->length;
    for (*count = 0;; at++) {
        int64_t first, last;
        int digits, digits_last;
        if (!read_number(&at, end, &first, &digits)) return false;
        last = first;
        if (at < end && *at == '-') {
            at++;
            if (!read_number(&at, end, &last, &digits_last) || last < first || last - first >= MOST) return false;
        }
        if (index >= *count && index - *count <= last - first)
            snprintf(out, size, "%0*lld", digits, (long long)(first + index - *count));
        *count += last - first + 1;
        if (*count > MOST) return false;
        if (at == end) return true;
        if (*at != ',') return false;
    }
}

// One name with its brackets. *count: how many hosts it is.
static bool find_brackets(const char *text, size_t length, bracket *found, int *n, int64_t *count) {
    *n = 0, *count = 1;
    for (const char *at = text, *end = text + length; at < end; at++) {
        if (*at == ']' || isspace((unsigned char)*at)) return false;
        if (*at != '[') continue;
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (close == NULL || *n == BRACKETS) return false;
        bracket *b = &found[(*n)++];
        *b = (bracket){.text = at + 1, .length = (size_t)(close - at - 1)};
        if (!walk(b, -1, NULL, 0, &b->count)) return false;
        *count *= b->count;
        if (*count > MOST) return false;
        at = close;
    }
    return length > 0;
}

// The host numbered `index` of one name.
static bool write_host(const char *text, size_t length, const bracket *found, int n, int64_t index, char *out,
                       size_t size) {
    int64_t of[BRACKETS];
    for (int i = n - 1; i >= 0; i--)
        of[i] = index % found[i].count, index /= found[i].count;
    size_t used = 0;
    const char *at = text, *end = text + length;
    for (int i = 0; i <= n; i++) {
        const char *stop = i < n ? found[i].text - 1 : end;
        const size_t plain = (size_t)(stop - at);
        if (plain >= size - used) return false;
        memcpy(out + used, at, plain);
        used += plain;
        out[used] = '\0';
        if (i == n) break;
        int64_t count;
        char number[DIGITS + 2];
        if (!walk(&found[i], of[i], number, sizeof number, &count) || strlen(number) >= size - used) return false;
        strcpy(out + used, number);
        used += strlen(number);
        at = found[i].text + found[i].length + 1;
    }
    return true;
}

// Up to the next comma outside of brackets.
static size_t name_length(const char *text) {
    bool inside = false;
    size_t n = 0;
    for (; text[n] != '\0' && (inside || text[n] != ','); n++)
        inside = text[n] == '[' || (inside && text[n] != ']');
    return n;
}

ft_status ft_nodelist_host(const char *list, const char *where, int64_t index, char *host, size_t size,
                           int64_t *count) {
    *count = 0, host[0] = '\0';
    for (const char *at = list;; at++) {
        const size_t length = name_length(at);
        bracket found[BRACKETS];
        int n;
        int64_t hosts;
        if (!find_brackets(at, length, found, &n, &hosts))
            return refuse(where, list, length == 0 ? "an empty name" : "no list of hosts");
        if (index >= *count && index - *count < hosts && !write_host(at, length, found, n, index - *count, host, size))
            return refuse(where, list, "too long a name");
        *count += hosts;
        if (*count > MOST) return refuse(where, list, "too many hosts");
        at += length;
        if (*at == '\0') return FT_OK;
    }
}

ft_status ft_nodelist_tasks(const char *list, const char *where, int64_t index, int64_t *value, int64_t *sum) {
    const char *at = list, *end = list + strlen(list);
    int64_t nodes = 0;
    bool seen = false;
    for (*sum = 0;; at++) {
        int64_t tasks, times = 1;
        int digits;
        bool fine = read_number(&at, end, &tasks, &digits) && tasks <= MOST;
        if (fine && at[0] == '(' && at[1] == 'x') {
            at += 2;
            fine = read_number(&at, end, &times, &digits) && times > 0 && times <= MOST && *at++ == ')';
        }
        if (!fine) return ft_fail(FT_INVALID, where, "numbers like 2(x3),1 are expected, not '%.200s'", list);
        if (index >= nodes && index - nodes < times) *value = tasks, seen = true;
        nodes += times;
        *sum += tasks * times;
        if (nodes > MOST) return ft_fail(FT_INVALID, where, "too many hosts in '%.200s'", list);
        if (at == end) break;
        if (*at != ',') return ft_fail(FT_INVALID, where, "numbers like 2(x3),1 are expected, not '%.200s'", list);
    }
    return seen ? FT_OK : ft_fail(FT_INVALID, where, "'%.200s' says nothing of host %lld", list, (long long)index);
}
