// options.h - the shape of sections and their options, and values from and to text; for engine/config, and for who has a
// section of his own or looks at single options.
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

// When an option may differ from what it was, which every row has to say: when a run, or a study, goes on where it stopped, and
// among runs that are compared with each other, as the trials of a study. Files count by what is in them.
typedef enum ft_option_change {
    FT_CHANGE_UNSAID = 0, // an error of the table
    FT_FIXED,             // never: it decides about results, and is part of what a run and a study are
    FT_RESUMABLE,         // when a run goes on
    FT_COMPARABLE,        // among runs that are compared
    FT_FREE               // in both cases: it decides about no result
} ft_option_change;

// Several names may stand for one value: the first one is written, the others are only understood.
typedef struct ft_option_choice {
    const char *name;
    int value;
} ft_option_choice;

typedef struct ft_option {
    const char *name; // "section.key"
    ft_option_type type;
    const struct ft_section *section;
    size_t offset;       // of the field in the section's values
    ft_option_change change;
    const char *initial; // the default, as it would be written
    bool automatic;      // "auto" is a value
    bool share;          // a size may be a share, "80%"
    int64_t least, most; // of whole numbers, sizes and list members
    double low, high;    // of numbers; the bound itself is out when its flag below is set
    bool low_open, high_open;
    const ft_option_choice *choices; // ends with a NULL name
    const char *literal;      // of a path: the words, separated by blanks, that are not made one
    const char *numbered;     // of names: what may be followed by a number, as "cuda:"
    bool listed;              // of names: several with commas between them, and "cuda:all"
    const char *scheme;       // of a path: what may stand in front of it, as "sqlite:///"
    bool secret;              // of a string: never written, but for file:PATH, which says where it is
    const char *files;        // of a string of names with commas between them: one that ends in one of these, separated by blanks,
                              // and has no scheme is a path; behind it may stand #NAME
    bool hub_name;            // of a path: a model's name is left as it is where there is no such directory
    const char *unit;         // what is counted, or NULL
    const char *also;         // other names that are taken for this one, "section.key", separated by blanks, or NULL
    const char *elsewhere;    // names in other programs, separated by blanks, or NULL: hints alone
    const char *help;
} ft_option;

// A section: a list of rows, constant, of whoever owns what they set. Those of a run are here and set fields of ft_config.
// Others are handed over by the program (ft_config_load_with), and their values lie in a struct of the owner's.
struct ft_section {
    const char *name, *help;
    const ft_option *rows;
    int count;
    // Of others than a run's:
    const char *about; // instead of a run: "searches"; NULL: it is a run's
    size_t size;       // of the struct that the fields lie in
    bool lines;        // it has no rows: its keys are options of all sections, its values are kept as text (ft_config.lines)
};
extern const ft_section ft_model_section, ft_adapter_section, ft_data_section, ft_augment_section, ft_train_section, ft_eval_section, ft_memory_section,
    ft_device_section, ft_distributed_section, ft_output_section, ft_track_section, ft_notify_section;

#define FT_OPTION_LIMIT 256       // options of all sections; for arrays with one entry an option
#define FT_STRING_LIMIT 1024      // bytes of a string, its end included
#define FT_PATH_LIMIT 4096        // the same of a path
#define FT_LINE_LIMIT 8192        // the same of a line that is kept as text
#define FT_LIST_LIMIT 64          // members of a list
#define FT_OPTION_TEXT_LIMIT 2048 // enough for the text of every value that is not a string or a path

// Of a run: the option of this number (0 .. ft_option_count() - 1) or NULL, and the number of "train.batch_size" or -1.
const ft_option *ft_option_at(int index);
int ft_option_find(const char *name);
// The same of a run and of `others`, a list that ends with NULL (or NULL), behind it. A run's have the same numbers.
const ft_option *ft_sections_option(const ft_section *const *others, int index);
int ft_sections_find(const ft_section *const *others, const char *name);
// The sections of a run, then the others; NULL behind the last, and when there is none of this name.
const ft_section *ft_section_at(const ft_section *const *others, int index);
const ft_section *ft_section_find(const ft_section *const *others, const char *name, size_t length);
// The section that keeps lines, of which there is one at most; NULL: none.
const ft_section *ft_section_of_lines(const ft_section *const *others);
// Where the fields of a section lie: the configuration itself, or the struct of the owner's; NULL: it was loaded without it.
const void *ft_config_values(const ft_config *config, const ft_section *section);
// May it differ when a run goes on? Among runs that are compared?
bool ft_option_resumable(const ft_option *option);
bool ft_option_comparable(const ft_option *option);
// The part of an option's name behind its section.
const char *ft_option_key(const ft_option *option);

// "whole number, at least 1, at most 64" and so on: what an option takes, for messages and for the reference.
const char *ft_option_takes(const ft_option *option, char *out, size_t size);
// Sets the option's field from text; FT_FAILED when the configuration was loaded without its section. `directory` (NULL: the
// working directory) is what relative paths start from. The message of an error names the option; its WHERE is the caller's
// `where`.
ft_status ft_option_set(ft_config *config, const ft_option *option, const char *text, const char *directory,
                        const char *where);
// The value as ft_option_set reads it back; strings and paths are returned in place, all else is put in `scratch`.
const char *ft_option_get(const ft_config *config, const ft_option *option, char scratch[FT_OPTION_TEXT_LIMIT]);
// FT_INVALID when a configuration file could not give `text` back: at most limit - 1 bytes, no control characters, no
// word that begins with ; or #, no white space at its ends. `name` is for the message.
ft_status ft_check_storable(const char *name, const char *text, size_t limit, const char *where);
// The shortest of the exact ways to write so many bytes.
void ft_format_size(int64_t bytes, char *out, size_t size);

// A configuration with every option at its default: a run's, and those of other sections (NULL: none).
ft_status ft_config_defaults(ft_config *config);
ft_status ft_config_defaults_with(const ft_section *const *others, ft_config *config);
// A section that is not a run's as INI, every option; `values` is the struct of its owner.
ft_status ft_section_write(const ft_section *section, const void *values, FILE *out);
// What a file holding `text` would set. `label` names it in errors, `directory` is where its relative paths start.
ft_status ft_config_apply_text(ft_config *config, const char *text, size_t size, const char *label,
                               const char *directory);
ft_status ft_config_apply_override(ft_config *config, const char *override);
// Rules between options that need no data.
ft_status ft_config_check(const ft_config *config);
// "unknown option" or "unknown section" with the nearest name, or the name it has here.
ft_status ft_option_unknown(const ft_section *const *others, const char *section, const char *key, const char *where);

#endif
