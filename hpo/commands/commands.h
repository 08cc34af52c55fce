// commands.h - the subcommands about studies, as engine/commands/commands.h has the others.
#ifndef FT_HPO_COMMANDS_H
#define FT_HPO_COMMANDS_H

#include "engine/commands/commands.h"

ft_status ft_command_tune(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_study(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_track(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_plan(const ft_section *const *sections, int argc, char **argv);   // engine's, with what becomes of a space
ft_status ft_command_quote(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_worker(const ft_section *const *sections, int argc, char **argv); // of a study, not for people

#endif
