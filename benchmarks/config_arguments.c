#include "benchmarks/config_arguments.h"

#include <stdlib.h>
#include <string.h>

ft_status bench_load_config(ft_config *config, int count, char *const *arguments) {
    const char **files = calloc(2 * (size_t)count + 1, sizeof *files), **overrides = files + count;
    int file_count = 0, override_count = 0;
    if (files == NULL) return ft_fail_memory(2 * (size_t)count * sizeof *files, "arguments");
    for (int i = 0; i < count; i++) {
        if (strchr(arguments[i], '=') != NULL) overrides[override_count++] = arguments[i];
        else files[file_count++] = arguments[i];
    }
    ft_status status = ft_config_load(config, file_count, files, override_count, overrides);
    free(files);
    return status;
}
