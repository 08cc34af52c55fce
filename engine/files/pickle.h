// pickle.h - reads Python's pickles of plain data without executing anything.
//
// A pickle is a program for a small stack machine, and two of its instructions name and call any function of Python:
// that is why loading one with Python runs whatever its author wished. Here nothing is ever called. Numbers, texts,
// tuples, lists and dictionaries become values; "call G with these arguments" becomes a value that says so, and G must
// be one of the names that the caller allows, else reading ends there. What the call means is the caller's business.
//
// Instructions: the binary ones of protocols 2 to 5 that such data need (pickletools.py of Python describes all of
// them). Work and memory are linear in the length of the pickle, and at most FT_PICKLE_MOST_VALUES values are made.
// Nothing here recurses, and what is built may be cyclic: walk it with that in mind.
#ifndef FT_PICKLE_H
#define FT_PICKLE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FT_PICKLE_MOST_VALUES = 1 << 20 };

typedef enum ft_pickle_kind {
    FT_PICKLE_NONE,
    FT_PICKLE_BOOL,
    FT_PICKLE_INT, // beyond int64: FT_PICKLE_BIG
    FT_PICKLE_BIG, // text, length: the bytes, least significant first, two's complement
    FT_PICKLE_REAL,
    FT_PICKLE_TEXT,    // not terminated; may hold NUL and need not be UTF-8
    FT_PICKLE_TUPLE,   // also lists
    FT_PICKLE_DICT,    // items: key, value, key, value, ... in the order in which they were set, keys may repeat
    FT_PICKLE_NAME,    // a function or class: module and name with a dot between
    FT_PICKLE_CALL,    // items[0] called with the tuple items[1]
    FT_PICKLE_OUTSIDE, // a thing that lies outside of the pickle, described by items[0]
} ft_pickle_kind;

typedef struct ft_pickle_value ft_pickle_value;
struct ft_pickle_value {
    ft_pickle_kind kind;
    size_t offset;  // of the instruction that made it
    int64_t number; // BOOL, INT
    double real;
    const char *text; // TEXT, BIG: in the pickle; NAME: in the arena
    size_t length;
    ft_pickle_value **items;
    size_t count;
};

// May the pickle name this? `context` is the caller's.
typedef bool (*ft_pickle_allowed)(void *context, const char *name);

// Reads the pickle that begins at data[*at]; *at moves behind its end. `label` ("pytorch_model.bin: data.pkl") stands
// in errors, with the byte. Texts point into `data`; all else lives in `arena`.
ft_status ft_pickle_read(const unsigned char *data, size_t size, size_t *at, const char *label,
                         ft_pickle_allowed allowed, void *context, ft_arena *arena, const ft_pickle_value **value);

#endif
