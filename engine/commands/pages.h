// pages.h - what is made from the table of commands (and, of options, from theirs): the reference, the manual page, completion in shells.
#ifndef FT_PAGES_H
#define FT_PAGES_H

#include "engine/commands/commands.h"

// docs/reference/commands.md.
void ft_pages_markdown(int count, const ft_command *commands, FILE *out);
// ftengine(1).
void ft_pages_man(int count, const ft_command *commands, FILE *out);
// `ftengine help --json`: commands with their flags, exit codes, variables of the environment, as one document.
ft_status ft_pages_json(int count, const ft_command *commands);
// `ftengine completion bash|zsh|fish`. FT_INVALID for another shell.
ft_status ft_pages_completion(const char *shell, int count, const ft_command *commands, const ft_section *const *sections, FILE *out);
// The same as a document: "shell", "script".
ft_status ft_pages_completion_json(const char *shell, int count, const ft_command *commands, const ft_section *const *sections);

#endif
