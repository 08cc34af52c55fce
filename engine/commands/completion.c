// completion.c - scripts that complete command lines in bash, zsh and fish. They ask nobody: names of commands, flags, options and
// values stand in them, from the tables of the program that wrote them.
#include "engine/commands/pages.h"
#include "engine/config/options.h"

#include <stdlib.h>
#include <string.h>

// ---- what is completed ----------------------------------------------------------------------------------------------

// The next flag ("--data") in a text, *length bytes; NULL: none.
static const char *next_flag(const char *text, int *length) {
    for (const char *at = text; (at = strstr(at, "--")) != NULL; at++) {
        *length = 2 + (int)strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        const bool begins = at == text || strchr(" [|(\n", at[-1]) != NULL;
        if (begins && *length > 2) return at;
    }
    return NULL;
}

// Calls `put` for every flag of a command, once each.
static void each_flag(const ft_command *c, void (*put)(const ft_command *c, const char *flag, FILE *out), FILE *out) {
    char seen[64][32];
    int count = 0, length;
    const char *const texts[] = {c->usage, c->help, "--quiet --verbose --help"};
    for (int t = 0; t < 3; t++) {
        for (const char *at = texts[t]; (at = next_flag(at, &length)) != NULL && count < 64; at += length) {
            snprintf(seen[count], sizeof seen[count], "%.*s", length, at);
            int first = 0;
            while (strcmp(seen[first], seen[count]) != 0) first++;
            if (first == count) put(c, seen[count++], out);
        }
    }
}

static void put_word(const ft_command *c, const char *flag, FILE *out) { fprintf(out, " %s", flag); }

// A command's own commands: create|list|show.
static void put_verbs(const ft_command *c, FILE *out) {
    const char *bar = strchr(c->usage, '|');
    const char *space = strchr(c->usage, ' ');
    if (bar == NULL || space == NULL || strcmp(c->name, "study") != 0) return;
    for (const char *word = space + 1; *word != ' ' && *word != '\0';) {
        const int length = (int)strcspn(word, "| ");
        fprintf(out, " %.*s", length, word);
        word += length + (word[length] == '|');
    }
}

static void put_words(const ft_command *c, FILE *out) {
    each_flag(c, put_word, out);
    put_verbs(c, out);
}

static bool takes_options(const ft_command *c) {
    return strstr(c->usage, "section.key=") != NULL;
}

// The values that an option has a list of.
static void put_values(const ft_option *o, const char *separator, FILE *out) {
    const char *between = "";
    if (o->automatic) fprintf(out, "auto"), between = separator;
    if (o->type == FT_OPTION_BOOL) fprintf(out, "%strue%sfalse", between, separator);
    for (const ft_option_choice *k = o->choices; k != NULL && k->name != NULL; k++, between = separator) fprintf(out, "%s%s", between, k->name);
}

static bool has_values(const ft_option *o) { return o->automatic || o->type == FT_OPTION_BOOL || o->choices != NULL; }

static void put_option_names(const ft_section *const *sections, const char *before, const char *behind, FILE *out) {
    const ft_option *o;
    for (int i = 0; (o = ft_sections_option(sections, i)) != NULL; i++) fprintf(out, "%s%s%s", before, o->name, behind);
}

static void put_value_cases(const ft_section *const *sections, const char *format, FILE *out) {
    const ft_option *o;
    for (int i = 0; (o = ft_sections_option(sections, i)) != NULL; i++) {
        if (!has_values(o)) continue;
        fprintf(out, format, o->name);
        put_values(o, " ", out);
        fputs("\" ;;\n", out);
    }
}

// ---- bash -----------------------------------------------------------------------------------------------------------

static void write_bash(int count, const ft_command *commands, const ft_section *const *sections, FILE *out) {
    fputs("# bash completion for ftengine: made by `ftengine completion bash`\n"
          "_ftengine_values() {\n    case $1 in\n", out);
    put_value_cases(sections, "        %s) echo \"", out);
    fputs("    esac\n}\n_ftengine() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words=\n"
          "    COMPREPLY=()\n    if [ \"$COMP_CWORD\" = 1 ]; then\n        mapfile -t COMPREPLY < <(compgen -W \"", out);
    for (int i = 0; i < count; i++) fprintf(out, "%s ", commands[i].name);
    fputs("help --version --help\" -- \"$cur\")\n        return\n    fi\n"
          "    # \"=\" is a word of its own in bash: section.key = value\n"
          "    if [ \"$cur\" = = ]; then\n        cur=\n        words=$(_ftengine_values \"$prev\")\n"
          "    elif [ \"$prev\" = = ]; then\n        words=$(_ftengine_values \"${COMP_WORDS[COMP_CWORD - 2]}\")\n"
          "    else\n        case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; i < count; i++) {
        if (commands[i].run == NULL) continue; // completion itself, below
        fprintf(out, "            %s) words=\"", commands[i].name);
        put_words(&commands[i], out);
        fprintf(out, "%s\" ;;\n", takes_options(&commands[i]) ? " $_ftengine_options" : "");
    }
    fputs("            help) words=\"", out);
    for (int i = 0; i < count; i++) fprintf(out, "%s ", commands[i].name);
    fputs("\" ;;\n            completion) words=\"bash zsh fish\" ;;\n        esac\n    fi\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"; compgen -f -- \"$cur\")\n"
          "    [[ ${#COMPREPLY[@]} = 1 && ${COMPREPLY[0]} = *= ]] && compopt -o nospace 2>/dev/null\n"
          "    return 0\n}\n_ftengine_options=\"", out);
    put_option_names(sections, "", "= ", out);
    fputs("\"\ncomplete -o filenames -F _ftengine ftengine\n", out);
}

// ---- zsh ------------------------------------------------------------------------------------------------------------

static void write_zsh(int count, const ft_command *commands, const ft_section *const *sections, FILE *out) {
    fputs("#compdef ftengine\n# made by `ftengine completion zsh`\n_ftengine_values() {\n    case $1 in\n", out);
    put_value_cases(sections, "        %s) echo \"", out);
    // `words`, `commands` and `options` are zsh's own.
    fputs("    esac\n}\n_ftengine() {\n    local -a known settings\n    known=(\n", out);
    for (int i = 0; i < count; i++) fprintf(out, "        '%s:%s'\n", commands[i].name, commands[i].what);
    fputs("        'help:usage of one command'\n    )\n"
          "    if (( CURRENT == 2 )); then\n        _describe 'command' known\n        return\n    fi\n"
          "    if [[ $words[CURRENT] == *.*=* ]]; then\n        local name=${words[CURRENT]%%=*}\n"
          "        compset -P '*='\n        compadd -- ${=$(_ftengine_values $name)}\n        _files\n        return\n    fi\n    settings=(", out);
    put_option_names(sections, "", "= ", out);
    fputs(")\n    case $words[2] in\n", out);
    for (int i = 0; i < count; i++) {
        if (commands[i].run == NULL) continue;
        fprintf(out, "        %s) compadd --", commands[i].name);
        put_words(&commands[i], out);
        fprintf(out, "%s ;;\n", takes_options(&commands[i]) ? "; compadd -S '' -- $settings" : "");
    }
    fputs("        help) _describe 'command' known ;;\n        completion) compadd -- bash zsh fish ;;\n    esac\n    _files\n}\n"
          "_ftengine \"$@\"\n", out);
}

// ---- fish -----------------------------------------------------------------------------------------------------------

static void put_fish_flag(const ft_command *c, const char *flag, FILE *out) {
    fprintf(out, "complete -c ftengine -n '__fish_seen_subcommand_from %s' -l %s\n", c->name, flag + 2);
}

static void write_fish(int count, const ft_command *commands, const ft_section *const *sections, FILE *out) {
    fputs("# fish completion for ftengine: made by `ftengine completion fish`\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "complete -c ftengine -n __fish_use_subcommand -f -a %s -d '%s'\n", commands[i].name, commands[i].what);
    fputs("complete -c ftengine -n __fish_use_subcommand -f -a help -d 'usage of one command'\n"
          "complete -c ftengine -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n", out);
    for (int i = 0; i < count; i++) each_flag(&commands[i], put_fish_flag, out);
    fputs("complete -c ftengine -n '__fish_seen_subcommand_from study' -f -a '", out);
    for (int i = 0; i < count; i++)
        if (strcmp(commands[i].name, "study") == 0) put_verbs(&commands[i], out);
    fputs("'\ncomplete -c ftengine -n '__fish_seen_subcommand_from help' -f -a '", out);
    for (int i = 0; i < count; i++) fprintf(out, "%s ", commands[i].name);
    fputs("'\n", out);
    fputs("set -l with_options", out);
    for (int i = 0; i < count; i++)
        if (takes_options(&commands[i])) fprintf(out, " %s", commands[i].name);
    fputs("\n", out);
    const ft_option *o;
    for (int i = 0; (o = ft_sections_option(sections, i)) != NULL; i++) {
        fprintf(out, "complete -c ftengine -n \"__fish_seen_subcommand_from $with_options\" -a '%s=", o->name);
        if (has_values(o)) {
            char before[160];
            snprintf(before, sizeof before, " %s=", o->name);
            put_values(o, before, out);
        }
        fputs("'\n", out);
    }
}

ft_status ft_pages_completion(const char *shell, int count, const ft_command *commands, const ft_section *const *sections, FILE *out) {
    if (strcmp(shell, "bash") == 0) write_bash(count, commands, sections, out);
    else if (strcmp(shell, "zsh") == 0) write_zsh(count, commands, sections, out);
    else if (strcmp(shell, "fish") == 0) write_fish(count, commands, sections, out);
    else {
        ft_fail(FT_INVALID, shell, "no completions for this shell");
        ft_hint("bash, zsh or fish");
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_pages_completion_json(const char *shell, int count, const ft_command *commands, const ft_section *const *sections) {
    char *script = NULL;
    size_t length = 0;
    bool failed = false;
    FILE *memory = open_memstream(&script, &length);
    if (memory == NULL) return ft_fail_memory(0, "completions");
    ft_status status = ft_pages_completion(shell, count, commands, sections, memory);
    if (fclose(memory) != 0 && status == FT_OK) status = ft_fail_memory(0, "completions");
    if (status == FT_OK) {
        json_t *document = json_pack("{s:i, s:s}", "format_version", 1, "shell", shell);
        ft_json_put(document, "script", json_stringn(script, length), &failed);
        status = ft_print_document(document, failed);
    }
    free(script);
    return status;
}
