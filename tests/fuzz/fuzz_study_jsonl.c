// fuzz_study_jsonl.c - JSON lines as `ftengine study import` takes them: refused in one error and with nothing left
// behind, or a study that is exported and read again as the same; and as study.learn_from reads them.
#include "hpo/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (holds) return;
    fprintf(stderr, "%s (%s)\n", ft_error_message(), ft_error_where());
    abort();
}

static char path_of_database[64];

static void remove_database(void) {
    char name[80];
    unlink(path_of_database); // not earlier: SQLite stops when its file is gone
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s-%s", path_of_database, i == 0 ? "wal" : "shm");
        unlink(name);
    }
}

// Making the tables costs more than an import: one database serves all inputs, and is empty after each.
static ft_storage *database(void) {
    static ft_storage *storage;
    if (storage != NULL) return storage;
    snprintf(path_of_database, sizeof path_of_database, "/dev/shm/ft_fuzz_jsonl_%d.db", (int)getpid());
    check(ft_storage_open(path_of_database, FT_STORAGE_CREATE, &storage) == FT_OK && atexit(remove_database) == 0);
    return storage;
}

static int studies(ft_storage *storage) {
    ft_arena arena = {0};
    ft_study_info *list;
    int count;
    check(ft_storage_studies(storage, &arena, &list, &count) == FT_OK);
    ft_arena_free(&arena);
    return count;
}

static ft_status import(const void *text, size_t size, const char *name, ft_stored **study) {
    char path[64];
    int file = memfd_create("import", 0);
    check(file >= 0 && write(file, text, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ft_status status = ft_import_jsonl(path, database(), name, study);
    close(file);
    return status;
}

static char *export(ft_stored *study, size_t *size) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, size);
    check(stream != NULL && ft_export_jsonl(study, stream) == FT_OK && fclose(stream) == 0);
    stream = fopen("/dev/null", "w");
    check(stream != NULL && ft_export_csv(study, stream) == FT_OK && fclose(stream) == 0);
    return text;
}

static ft_status take(void *context, const char *study, const ft_trials *trials) {
    for (int64_t i = 0; i < trials->count; i++)
        for (int p = 0; p < trials->trial[i].param_count; p++) {
            const ft_trial_param *param = &trials->trial[i].params[p];
            const ft_distribution *d = trials->distributions[param->distribution];
            check(d->kind != FT_CATEGORICAL || ft_distribution_contains(d, param->value));
        }
    return FT_OK;
}

// As study.learn_from takes it.
static void read_into_memory(const void *text, size_t size) {
    char path[64];
    int file = memfd_create("learn", 0);
    check(file >= 0 && write(file, text, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const ft_status status = ft_exchange_read(path, take, NULL);
    close(file);
    if (status != FT_OK) check(status == FT_INVALID && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
    ft_error_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ft_stored *study, *again;
    ft_error_clear();
    read_into_memory(input, size);
    ft_status status = import(input, size, "first", &study);
    if (status != FT_OK) {
        check(status == FT_INVALID && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
        check(studies(database()) == 0);
        return 0;
    }
    size_t length, second_length;
    char *text = export(study, &length);
    check(import(text, length, "second", &again) == FT_OK);
    char *second = export(again, &second_length);
    char *line = strchr(text, '\n'), *second_line = strchr(second, '\n'); // behind the study's name
    check(line != NULL && second_line != NULL && strcmp(line, second_line) == 0);
    free(text);
    free(second);
    ft_stored_close(study);
    ft_stored_close(again);
    check(ft_storage_delete_study(database(), "first") == FT_OK);
    check(ft_storage_delete_study(database(), "second") == FT_OK);
    return 0;
}
