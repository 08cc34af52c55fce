// Any bytes as a journal of studies, which another program may have written: read or refused in one error, with its line; what was read is
// exported, and every change that is written again reads as the same.
#include "hpo/exchange/exchange.h"
#include "hpo/storage/journal.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (holds) return;
    fprintf(stderr, "%s (%s)\n", ft_error_message(), ft_error_where());
    abort();
}

static void check_refused(ft_status status) { check(status == FT_INVALID && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0'); }

// ---- lines ----------------------------------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b) { return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0); }
static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void check_same(const ft_journal_change *a, const ft_journal_change *b) {
    check(a->op == b->op && a->id == b->id && same_text(a->key, b->key) && same_text(a->json, b->json));
    if (a->op == FT_JOURNAL_CREATE_TRIAL) check(same_text(a->start, b->start));
    if (a->op == FT_JOURNAL_CREATE_STUDY) check(a->objectives == b->objectives && memcmp(a->maximize, b->maximize, (size_t)a->objectives) == 0);
    if (a->op == FT_JOURNAL_PARAM || a->op == FT_JOURNAL_REPORT) check(same_number(a->value, b->value) && a->step == b->step);
    if (a->op != FT_JOURNAL_STATE) return;
    check(a->state == b->state && a->value_count == b->value_count);
    check(a->state == FT_RUNNING ? same_text(a->start, b->start) : same_text(a->complete, b->complete));
    for (int i = 0; i < a->value_count; i++) check(same_number(a->values[i], b->values[i]));
}

static void check_line(const char *line) {
    ft_arena arena = {0};
    json_t *root = NULL, *again = NULL;
    ft_journal_change first, second;
    if (ft_journal_parse(line, "fuzz", &arena, &root, &first) != FT_OK) {
        check_refused(ft_error_code());
    } else if (first.op != FT_JOURNAL_DISCARD) { // which is never written
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        check(out != NULL);
        ft_journal_write(out, &first, "w");
        check(fclose(out) == 0 && length > 0 && text[length - 1] == '\n' && memchr(text, '\n', length - 1) == NULL);
        text[length - 1] = '\0';
        check(ft_journal_parse(text, "again", &arena, &again, &second) == FT_OK);
        check_same(&first, &second);
        free(text);
    }
    json_decref(root);
    json_decref(again);
    ft_arena_free(&arena);
}

static void check_lines(const uint8_t *input, size_t size) {
    char *text = malloc(size + 1);
    check(text != NULL);
    memcpy(text, input, size);
    text[size] = '\0';
    for (char *at = text, *next; at != NULL; at = next) {
        next = strchr(at, '\n');
        if (next != NULL) *next++ = '\0';
        check_line(at);
    }
    free(text);
}

// ---- the whole of it --------------------------------------------------------------------------------------------------

static ft_status look(const char *url) {
    ft_storage *storage;
    ft_arena arena = {0};
    ft_study_info *studies;
    int count = 0;
    FILE *null = fopen("/dev/null", "w");
    check(null != NULL);
    ft_status status = ft_storage_open(url, FT_STORAGE_READ, &storage);
    if (status != FT_OK) return fclose(null), status;
    status = ft_storage_studies(storage, &arena, &studies, &count);
    for (int i = 0; status == FT_OK && i < count; i++) {
        ft_stored *study;
        status = ft_stored_open(storage, studies[i].name, &study);
        if (status != FT_OK) break;
        status = ft_export_jsonl(study, null);
        ft_stored_close(study);
    }
    ft_error error;
    ft_error_save(&error);
    ft_storage_close(storage);
    ft_error_restore(&error);
    ft_arena_free(&arena);
    fclose(null);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    char url[80], *path = url + strlen("journal:");
    snprintf(url, sizeof url, "journal:/dev/shm/ft_fuzz_journal_%d", (int)getpid());
    const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    check(file >= 0 && write(file, input, size) == (ssize_t)size && close(file) == 0);
    ft_error_clear();
    const ft_status status = look(url);
    if (status != FT_OK) check_refused(status);
    unlink(path);
    check_lines(input, size);
    return 0;
}
