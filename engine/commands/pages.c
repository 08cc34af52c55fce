#include "engine/commands/pages.h"

#include "base/context.h"
#include "base/json/json.h"

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
    {"FTENGINE_CUDA_MODULE", "the file with the CUDA kernels; by default beside the program or libftengine.so"},
    {"FTENGINE_PRODUCTS", "products with an activation, its slope or a norm behind them on compute capability 9.0: own (one kernel of ours), cublaslt (and a pass), or auto, the default: what device.gemm_tuning has measured to be faster, else cublaslt"},
    {"FTENGINE_ATTENTION", "attention's path on tensor cores: mma, wgmma (compute capability 9.0), tcgen05 (forward, compute capability 10.0 and 10.3, where it was checked), owner or auto; by default wgmma where it was checked on this GPU, else mma"},
    {"FTENGINE_ATTENTION_TURNS", "0: the two groups of a block of wgmma's forward ask for products when they like, not in turns, as by default (1); the same results, for measuring"},
    {"FTENGINE_CUBLASLT", "the library cuBLASLt; by default that of CUDA_HOME, CONDA_PREFIX or the loader"},
    {"FTENGINE_DUCKDB", "DuckDB's library, which reads Parquet; by default the loader's libduckdb.so"},
    {"HF_HOME, HF_HUB_CACHE", "where models that were pulled are kept"},
    {"HF_ENDPOINT, HF_TOKEN", "which hub is asked for models, and as whom"},
    {"SSL_CERT_FILE, REQUESTS_CA_BUNDLE", "whose certificates are accepted"},
    {"OMP_NUM_THREADS", "threads, where device.threads is 0"},
    {"XDG_CACHE_HOME", "where tokenised texts are kept, what checks of a GPU have found, and measured matrix products; by default ~/.cache"},
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

// ---- for programs ---------------------------------------------------------------------------------------------------

static bool among(const json_t *flags, const char *name, size_t length) {
    size_t i;
    json_t *flag;
    json_array_foreach(flags, i, flag) {
        const char *other = json_string_value(json_object_get(flag, "name"));
        if (other != NULL && strlen(other) == length && strncmp(other, name, length) == 0) return true;
    }
    return false;
}

// "--data FILE|-", "--json", "--trials N": in the usage, and lines of the help that begin with one (`study` has some of these alone).
static void add_flags(json_t *flags, const char *text, bool lines, bool *failed) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-", ends[] = " ]\n";
    for (const char *at = text; (at = strstr(at, "--")) != NULL;) {
        const size_t length = 2 + strspn(at + 2, letters);
        const bool begins = at == text || (lines ? at[-1] == ' ' && at > text + 1 && at[-2] == ' ' : strchr(" [|", at[-1]) != NULL);
        const char *value = at + length + (at[length] == ' ');
        const size_t value_length = at[length] == ' ' ? strcspn(value, ends) : 0;
        const bool has_value = value_length > 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ", value[0]) != NULL;
        if (begins && length > 2 && !among(flags, at, length)) {
            json_t *flag = json_object();
            ft_json_put(flag, "name", json_stringn(at, length), failed);
            ft_json_put(flag, "takes", has_value ? json_stringn(value, value_length) : json_null(), failed);
            ft_json_append(flags, flag, failed);
        }
        at += length;
    }
}

static json_t *command_json(const ft_command *c, bool *failed) {
    json_t *object = json_object(), *flags = json_array();
    add_flags(flags, c->usage, false, failed);
    add_flags(flags, c->help, true, failed);
    ft_json_put(object, "name", json_string(c->name), failed);
    ft_json_put(object, "what", json_string(c->what), failed);
    ft_json_put(object, "usage", json_string(c->usage), failed);
    ft_json_put(object, "flags", flags, failed);
    ft_json_put(object, "help", json_string(c->help), failed);
    return object;
}

ft_status ft_pages_json(int count, const ft_command *commands) {
    bool failed = false;
    json_t *root = json_object(), *list = json_array(), *codes = json_array(), *names = json_array();
    for (int i = 0; i < count; i++) ft_json_append(list, command_json(&commands[i], &failed), &failed);
    for (int i = 0; i < COUNT(exit_codes); i++)
        ft_json_append(codes, json_pack("{s:s, s:s}", "code", exit_codes[i].code, "meaning", exit_codes[i].meaning), &failed);
    for (int i = 0; i < COUNT(variables); i++)
        ft_json_append(names, json_pack("{s:s, s:s}", "name", variables[i].name, "meaning", variables[i].meaning), &failed);
    ft_json_put(root, "format_version", json_integer(1), &failed);
    ft_json_put(root, "version", json_string(FT_VERSION), &failed);
    ft_json_put(root, "commands", list, &failed);
    ft_json_put(root, "exit_codes", codes, &failed);
    ft_json_put(root, "environment", names, &failed);
    if (!failed) ft_json_write(ft_results(), root);
    json_decref(root);
    return failed ? ft_fail_memory(0, "the commands as JSON") : FT_OK;
}
