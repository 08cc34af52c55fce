#include "engine/commands/pages.h"

#include <string.h>

static const struct {
    const char *code, *meaning;
} exit_codes[] = {{"0", "done"},
                  {"1", "failed while running; of tune: no trial completed, or study.max_failures in a row"},
                  {"2", "bad usage, configuration or input"},
                  {"3", "does not fit in memory"},
                  {"4", "no suitable device in time"},
                  {"5", "diverged: the loss is not finite"},
                  {"130, 143", "stopped by Ctrl-C, by SIGTERM or SIGHUP, after saving"}};

static const struct {
    const char *name, *meaning;
} variables[] = {
    {"CUDA_VISIBLE_DEVICES", "which CUDA devices there are, and in which order"},
    {"FTENGINE_LEDGER_DIR", "where reservations of memory are kept; by default /tmp/ftengine-UID"},
    {"FTENGINE_LEDGER_CAPACITY", "how much of a device's memory runs may reserve, as 80% or 16GiB"},
    {"FTENGINE_CUDA_MODULE", "the file with the CUDA kernels; by default beside the program"},
    {"FTENGINE_CUBLASLT", "the library cuBLASLt; by default that of CUDA_HOME, CONDA_PREFIX or the loader"},
    {"HF_HOME, HF_HUB_CACHE", "where models that were pulled are kept"},
    {"HF_ENDPOINT, HF_TOKEN", "which hub is asked for models, and as whom"},
    {"SSL_CERT_FILE, REQUESTS_CA_BUNDLE", "whose certificates are accepted"},
    {"OMP_NUM_THREADS", "threads, where device.threads is 0"},
    {"XDG_CACHE_HOME", "where tokenised texts are kept; by default ~/.cache"},
    {"NO_COLOR", "no colours"}};

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

// ---- Markdown -----------------------------------------------------------------------------------------------------

void ft_pages_markdown(int count, const ft_command *commands, FILE *out) {
    fputs("<!-- Made by `ftengine help --markdown`; a test compares. -->\n# Every command\n\n"
          "Everywhere: `--quiet`, `--verbose`, `--help`. Results go to standard output, messages to standard error.\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "\n## %s\n\n%s.\n\n```text\nftengine %s\n\n%s```\n", commands[i].name, commands[i].what, commands[i].usage, commands[i].help);
    fputs("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n", out);
    for (int i = 0; i < COUNT(exit_codes); i++) fprintf(out, "| %s | %s |\n", exit_codes[i].code, exit_codes[i].meaning);
    fputs("\n## Environment\n\n| variable | meaning |\n| --- | --- |\n", out);
    for (int i = 0; i < COUNT(variables); i++) fprintf(out, "| %s | %s |\n", variables[i].name, variables[i].meaning);
}

// ---- the manual page ------------------------------------------------------------------------------------------------

static void man_item(const char *name, const char *meaning, FILE *out) {
    fputs(".TP\n.B ", out);
    ft_write_roff(out, name);
    fputs("\n", out);
    ft_write_roff(out, meaning);
    fputs("\n", out);
}

static void man_command(const ft_command *c, FILE *out) {
    fputs(".SS ", out);
    ft_write_roff(out, c->name);
    fputs("\n", out);
    ft_write_roff(out, c->what);
    fputs(".\n.PP\n.nf\nftengine ", out);
    ft_write_roff(out, c->usage);
    fputs("\n\n", out);
    ft_write_roff(out, c->help);
    fputs(".fi\n", out);
}

void ft_pages_man(int count, const ft_command *commands, FILE *out) {
    fputs(".TH FTENGINE 1 \"\" \"ftengine " FT_VERSION "\" \"User Commands\"\n.SH NAME\nftengine \\- fine\\-tunes BERT\\-style transformers and "
          "searches their hyper\\-parameters\n.SH SYNOPSIS\n.B ftengine\nCOMMAND ...\n.SH DESCRIPTION\nThe memory of a run is known to the byte "
          "before it starts, the same seed gives the same bits, and what is killed goes on. Results go to standard output, messages to "
          "standard error. Every command takes \\-\\-quiet, \\-\\-verbose and \\-\\-help.\n.SH COMMANDS\n", out);
    for (int i = 0; i < count; i++) man_command(&commands[i], out);
    fputs(".SH EXIT STATUS\n", out);
    for (int i = 0; i < COUNT(exit_codes); i++) man_item(exit_codes[i].code, exit_codes[i].meaning, out);
    fputs(".SH ENVIRONMENT\n", out);
    for (int i = 0; i < COUNT(variables); i++) man_item(variables[i].name, variables[i].meaning, out);
    fputs(".SH FILES\n", out);
    man_item("runs/NAME-NNN", "run directories: model, metrics, predictions, checkpoints", out);
    man_item("studies/NAME", "studies: study.db, best.ini, a run directory for every trial", out);
    man_item("configs/tune.ini", "what tune searches where it is given no configuration", out);
    fputs(".SH SEE ALSO\n.BR ftengine\\-config (5)\n", out);
}
