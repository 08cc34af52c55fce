// options_output.c - [output]: what it leaves behind.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_output_section
#include "engine/config/option_rows.h"

static const ft_option_choice exists_choices[] = {
    {"new", FT_EXISTS_NEW}, {"resume", FT_EXISTS_RESUME}, {"error", FT_EXISTS_ERROR}, {NULL, 0}};

static const ft_option rows[] = {
    PATH(output.dir, FREE, "", .elsewhere = "output_dir run_dir save_dir logging_dir run_name track.name",
         .help = "Run directory. Empty: runs/NAME-NNN, NAME being the config file's and NNN the next free number."),
    CHOICE(output.exists, FREE, "new", exists_choices, .elsewhere = "overwrite_output_dir resume_from_checkpoint resume",
           .help = "When output.dir is there already: take a fresh name beside it, go on where it stopped, or refuse."),
    INT(output.save_steps, FREE, "500", 0, ANY, .unit = "optimizer steps",
        .elsewhere = "save_every checkpoint_every checkpoint_steps",
        .help = "Steps between two checkpoints. 0: only at the end of an epoch, and when stopped."),
    INT(output.save_total_limit, FREE, "1", 1, 1 << 20, .unit = "checkpoints",
        .elsewhere = "max_checkpoints keep_checkpoints",
        .help = "Older checkpoints than the last so many are removed."),
};
const ft_section ft_output_section = {.name = "output", .help = "What it leaves behind.", .rows = rows, .count = ROWS};
