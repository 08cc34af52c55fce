// reference.c - every option in writing, made from their rows: as an INI file, as Markdown, as a manual page.
#include "engine/config/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TAKES = 512, LINE = 2048 };

// "Takes a whole number, at least 1 (sequences)."
static const char *takes_line(const ft_option *o, char out[LINE]) {
    char takes[TAKES];
    snprintf(out, LINE, "Takes %s%s%s%s.", ft_option_takes(o, takes, sizeof takes), o->unit != NULL ? " (" : "",
             o->unit != NULL ? o->unit : "", o->unit != NULL ? ")" : "");
    return out;
}

// "Known elsewhere as a, b." with `quote` around each; "" without.
static const char *elsewhere_line(const ft_option *o, const char *quote, char out[LINE]) {
    out[0] = '\0';
    if (o->elsewhere == NULL) return out;
    size_t used = (size_t)snprintf(out, LINE, "Known elsewhere as ");
    for (const char *name = o->elsewhere; *name != '\0' && used < LINE - 1;) {
        const int length = (int)strcspn(name, " ");
        const bool last = name[length] == '\0';
        used += (size_t)snprintf(out + used, LINE - used, "%s%.*s%s%s", quote, length, name, quote, last ? "." : ", ");
        name += length + (last ? 0 : 1);
    }
    return out;
}

// ---- INI ----------------------------------------------------------------------------------------------------------

// A comment of as many lines as it takes.
static void write_comment(FILE *out, const char *text) {
    int column = 0;
    for (const char *word = text; *word != '\0';) {
        int length = (int)strcspn(word, " ");
        if (column > 0 && column + 1 + length > 110) fputs("\n", out), column = 0;
        column += fprintf(out, "%s%.*s", column == 0 ? "; " : " ", length, word);
        word += length + (word[length] == ' ');
    }
    fputs("\n", out);
}

static void ini_begin(FILE *out) {
    write_comment(out,
                  "Every option of ftengine at its default. This file is generated from engine/config/options.c by "
                  "`ftengine config`; the lines of names known elsewhere say what an option is called in other "
                  "programs, where it is not accepted under that name.");
    write_comment(out, "Any option may be given on the command line too, as section.key=value. Paths here are relative "
                       "to this file, those on the command line to the working directory; ~ is the home directory. "
                       "A ; or # that begins a word starts a comment. A file may begin with include = FILE: what that "
                       "one sets counts less than what stands here.");
}

static void ini_section(FILE *out, const ft_section *section) {
    fputs("\n", out);
    write_comment(out, section->help);
    fprintf(out, "[%s]\n", section->name);
}

static void ini_option(FILE *out, const ft_option *o) {
    char line[LINE];
    fputs("\n", out);
    write_comment(out, o->help);
    write_comment(out, takes_line(o, line));
    if (o->elsewhere != NULL) write_comment(out, elsewhere_line(o, "", line));
    fprintf(out, "%s =%s%s\n", ft_option_key(o), o->initial[0] == '\0' ? "" : " ", o->initial);
}

// ---- Markdown -----------------------------------------------------------------------------------------------------

// What Markdown would take for its own in running text.
static void markdown_text(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (strchr("*_<>[]|\\", *text) != NULL) fputc('\\', out);
        fputc(*text, out);
    }
}

static void markdown_begin(FILE *out) {
    fputs("<!-- Made by `ftengine config --markdown`; a test compares. -->\n# Every option\n\n"
          "An INI file has them by section; on the command line they are `section.key=value`. Paths in a file are relative to it, on the "
          "command line to the working directory. `ftengine config FILE...` shows what a configuration comes to.\n", out);
}

static void markdown_section(FILE *out, const ft_section *section) {
    fprintf(out, "\n## [%s]\n\n", section->name);
    markdown_text(out, section->help);
    fputs("\n", out);
}

static void markdown_option(FILE *out, const ft_option *o) {
    char line[LINE];
    if (o->initial[0] == '\0') fprintf(out, "\n### %s\n\n", o->name);
    else fprintf(out, "\n### %s\n\nDefault `%s`. ", o->name, o->initial);
    markdown_text(out, takes_line(o, line));
    fputs("\n\n", out);
    markdown_text(out, o->help);
    fputs("\n", out);
    if (o->elsewhere != NULL) fprintf(out, "\n%s\n", elsewhere_line(o, "`", line));
}

// ---- the manual page ------------------------------------------------------------------------------------------------

void ft_write_roff(FILE *out, const char *text) {
    bool begins = true;
    for (; *text != '\0'; text++) {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
        if (*text == '\\') fputs("\\e", out);
        else if (*text == '-') fputs("\\-", out);
        else fputc(*text, out);
        begins = *text == '\n';
    }
}

static void man_begin(FILE *out) {
    fputs(".TH FTENGINE-CONFIG 5 \"\" \"ftengine " FT_VERSION "\" \"File formats\"\n.SH NAME\nftengine\\-config \\- the options of ftengine\n"
          ".SH DESCRIPTION\nA configuration is an INI file; each option may be given on the command line too, as section.key=value. Paths in a "
          "file are relative to it, on the command line to the working directory. A ; or # that begins a word starts a comment. A file may "
          "begin with include = FILE: what that one sets counts less.\n", out);
}

static void man_section(FILE *out, const ft_section *section) {
    fprintf(out, ".SH [%s]\n", section->name);
    ft_write_roff(out, section->help);
    fputs("\n", out);
}

static void man_option(FILE *out, const ft_option *o) {
    char line[LINE];
    fputs(".TP\n.B ", out);
    ft_write_roff(out, o->name);
    fputs(" = ", out);
    ft_write_roff(out, o->initial);
    fputs("\n", out);
    ft_write_roff(out, o->help);
    fputs("\n.br\n", out);
    ft_write_roff(out, takes_line(o, line));
    fputs("\n", out);
    if (o->elsewhere == NULL) return;
    fputs(".br\n", out);
    ft_write_roff(out, elsewhere_line(o, "", line));
    fputs("\n", out);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static const struct {
    void (*begin)(FILE *out);
    void (*section)(FILE *out, const ft_section *section);
    void (*option)(FILE *out, const ft_option *option);
} forms[] = {[FT_REFERENCE_INI] = {ini_begin, ini_section, ini_option},
             [FT_REFERENCE_MARKDOWN] = {markdown_begin, markdown_section, markdown_option},
             [FT_REFERENCE_MAN] = {man_begin, man_section, man_option}};

ft_status ft_config_write_reference(const ft_section *const *others, ft_reference_form form, FILE *out) {
    const ft_section *section = NULL;
    const ft_option *option;
    forms[form].begin(out);
    for (int i = 0; (option = ft_sections_option(others, i)) != NULL; i++) {
        if (option->section != section) forms[form].section(out, section = option->section);
        forms[form].option(out, option);
    }
    if ((section = ft_section_of_lines(others)) != NULL) forms[form].section(out, section);
    if (fflush(out) != 0 || ferror(out)) return ft_fail_errno(FT_FAILED, errno, NULL, "cannot write the reference");
    return FT_OK;
}
