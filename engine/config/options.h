// options.h - the shape of the option table, and values from and to text; for engine/config, and for hpo/space, which
// checks every value of a search space by its option.
#ifndef FT_CONFIG_OPTIONS_H
#define FT_CONFIG_OPTIONS_H

#include "engine/config/config.h"

#include <stddef.h>

typedef enum ft_option_type {
    FT_OPTION_INT,
    FT_OPTION_FLOAT,
    FT_OPTION_BOOL,
    FT_OPTION_CHOICE, // an enum of the C side
    FT_OPTION_NAME,   // a string out of `choices`
    FT_OPTION_STRING,
    FT_OPTION_PATH,
    FT_OPTION_SIZE,    // bytes; auto is stored as 0, a share of the device as minus millionths
    FT_OPTION_LIST,    // whole numbers
    FT_OPTION_EVERY_K, // off = 0, on = 1, k
    FT_OPTION_DURATION, // seconds
} ft_option_type;

// Several names may stand for one value: the first one is written, the others are only understood.
typedef struct ft_option_choice {
    const char *name;
    int value;
} ft_option_choice;

typedef struct ft_option {
    const char *name; // "section.key"
    ft_option_type type;
    size_t offset;       // of the field in ft_config
    const char *initial; // the default, as it would be written
    bool automatic;      // "auto" is a value
    bool share;          // a size may be a share, "80%"
    int64_t least, most; // of whole numbers, sizes and list members
    double low, high;    // of numbers; the bound itself is out when its flag below is set
    bool low_open, high_open;
    const ft_option_choice *choices; // ends with a NULL name
    const char *literal;      // of a path: the one word that is not made a path
    const char *numbered;     // of names: what may be followed by a number, as "cuda:"
    const char *scheme;       // of a path: what may stand in front of it, as "sqlite:///"
    const char *unit;         // what is counted, or NULL
    const char *elsewhere;    // names in other programs, separated by blanks, or NULL
    const char *help;
} ft_option;

typedef struct ft_section {
    const char *name, *help;
} ft_section;

#define FT_OPTION_LIMIT 192       // options; for arrays with one entry an option
#define FT_STRING_LIMIT 1024      // bytes of a string, its end included
#define FT_PATH_LIMIT 4096        // the same of a path
#define FT_SPACE_LIMIT 8192       // the same of a line of [space]
#define FT_LIST_LIMIT 64          // members of a list
#define FT_OPTION_TEXT_LIMIT 2048 // enough for the text of every value that is not a string or a path

extern const ft_option ft_options[];
extern const int ft_options_count;
extern const ft_section ft_sections[];
extern const int ft_sections_count;

// Index of "train.batch_size", or -1.
int ft_option_find(const char *name);
const ft_section *ft_section_find(const char *name, size_t length);
// The part of an option's name behind its section.
const char *ft_option_key(const ft_option *option);

// "whole number, at least 1, at most 64" and so on: what an option takes, for messages and for the reference.
const char *ft_option_takes(const ft_option *option, char *out, size_t size);
// Sets the option's field from text. `directory` (NULL: the working directory) is what relative paths start from. The
// message of an error names the option; its WHERE is the caller's `where`.
ft_status ft_option_set(ft_config *config, const ft_option *option, const char *text, const char *directory,
                        const char *where);
// The value as ft_option_set reads it back; strings and paths are returned in place, all else is put in `scratch`.
const char *ft_option_get(const ft_config *config, const ft_option *option, char scratch[FT_OPTION_TEXT_LIMIT]);
// FT_INVALID when a configuration file could not give `text` back: at most limit - 1 bytes, no control characters, no
// word that begins with ; or #, no white space at its ends. `name` is for the message.
ft_status ft_check_storable(const char *name, const char *text, size_t limit, const char *where);
// The shortest of the exact ways to write so many bytes.
void ft_format_size(int64_t bytes, char *out, size_t size);

// A configuration with every option at its default.
ft_status ft_config_defaults(ft_config *config);
// What a file holding `text` would set. `label` names it in errors, `directory` is where its relative paths start.
ft_status ft_config_apply_text(ft_config *config, const char *text, size_t size, const char *label,
                               const char *directory);
ft_status ft_config_apply_override(ft_config *config, const char *override);
// Rules between options that need no data.
ft_status ft_config_check(const ft_config *config);
// "unknown option" or "unknown section" with the nearest name, or the name it has here.
ft_status ft_option_unknown(const char *section, const char *key, const char *where);

#endif
