// option_rows.h - the words in which a section is written; for the files that hold one and nothing else. Before they include
// this they define FT_ROWS_OF, the struct that the fields lie in (as SECTION.KEY), and FT_ROWS_IN, the ft_section.
//
//     INT(train.batch_size, FIXED, "8", 1, 1 << 20, .unit = "sequences", .help = "...")
//
// A row does not compile when its type is not the field's, nor without a word for when the option may differ (ft_option_change).
#ifndef FT_OPTION_ROWS_H
#define FT_OPTION_ROWS_H

#include "engine/config/options.h"

#include <stddef.h>

// The offset of a field, which does not compile when the field is not of the type that the row writes there.
#define AT(type, field) (offsetof(FT_ROWS_OF, field) + 0 * sizeof(_Generic(((FT_ROWS_OF *)0)->field, type : (char)0)))
#define AT_ENUM(field)                                                                                                 \
    (offsetof(FT_ROWS_OF, field) + 0 * sizeof(char[sizeof(((FT_ROWS_OF *)0)->field) == sizeof(int) ? 1 : -1]))

#define ROW(kind, field, at, rule, default_, ...)                                                                      \
    {                                                                                                                  \
        .name = #field, .type = kind, .section = &FT_ROWS_IN, .offset = at, .change = FT_##rule, .initial = default_,  \
        __VA_ARGS__                                                                                                    \
    }
#define WHOLE(kind, type, field, rule, default_, least_, most_, ...)                                                   \
    ROW(kind, field, AT(type, field), rule, default_, .least = least_, .most = most_, __VA_ARGS__)
#define REAL(kind, field, rule, default_, low_, high_, ...)                                                            \
    ROW(kind, field, AT(double, field), rule, default_, .low = low_, .high = high_, __VA_ARGS__)

#define INT(field, ...) WHOLE(FT_OPTION_INT, int64_t, field, __VA_ARGS__)         // rule, default, least, most
#define SIZE(field, ...) WHOLE(FT_OPTION_SIZE, int64_t, field, __VA_ARGS__)       // the same, in bytes
#define EVERY_K(field, ...) WHOLE(FT_OPTION_EVERY_K, int64_t, field, __VA_ARGS__) // the same, of a k
#define LIST(field, ...) WHOLE(FT_OPTION_LIST, ft_int_list, field, __VA_ARGS__)   // the same, of members
#define FLOAT(field, ...) REAL(FT_OPTION_FLOAT, field, __VA_ARGS__)               // rule, default, low, high
#define DURATION(field, ...) REAL(FT_OPTION_DURATION, field, __VA_ARGS__)         // the same, in seconds
#define BOOL(field, ...) ROW(FT_OPTION_BOOL, field, AT(bool, field), __VA_ARGS__) // rule, default
#define STRING(field, ...) ROW(FT_OPTION_STRING, field, AT(const char *, field), __VA_ARGS__)
#define PATH(field, ...) ROW(FT_OPTION_PATH, field, AT(const char *, field), __VA_ARGS__)
#define CHOICE(field, rule, default_, choices_, ...)                                                                   \
    ROW(FT_OPTION_CHOICE, field, AT_ENUM(field), rule, default_, .choices = choices_, __VA_ARGS__)
#define NAME(field, rule, default_, choices_, ...)                                                                     \
    ROW(FT_OPTION_NAME, field, AT(const char *, field), rule, default_, .choices = choices_, __VA_ARGS__)

#define ANY INT64_MAX
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

#endif
