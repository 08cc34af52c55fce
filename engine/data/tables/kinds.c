#include "engine/data/tables/kinds.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef struct kind {
    const char *name, *magic;
    size_t length;
    const char *hint; // %s: the file
} kind;

static const kind kinds[] = {
    {"a Parquet file", "PAR1\x15", 5,
     "python3 -c \"import pandas; pandas.read_parquet('%s').to_json('%s.jsonl', orient='records', lines=True)\" makes "
     "JSON lines of it"},
    {"an Arrow file", "ARROW1\0\0", 8,
     "python3 -c \"import pyarrow.feather; pyarrow.feather.read_table('%s').to_pandas().to_json('%s.jsonl', "
     "orient='records', lines=True)\" makes JSON lines of it"},
    {"a bzip2 file", "BZh", 3, "bunzip2 -k '%s' unpacks it; gzip and Zstandard are read as they are"},
    {"an xz file",
     "\xFD"
     "7zXZ\0",
     6, "unxz -k '%s' unpacks it; gzip and Zstandard are read as they are"},
    {"a pointer of Git LFS, not the file itself", "version https://git-lfs.github.com/spec/", 40,
     "git lfs pull --include '%s' fetches the file, in its repository"},
};
static const kind workbook = {"an Excel workbook", "", 0,
                              "python3 -c \"import pandas; pandas.read_excel('%s').to_csv('%s.csv', index=False)\" "
                              "makes a CSV file of its first sheet"};
static const kind archive = {"a ZIP archive", "", 0, "unzip '%s' unpacks it"};

static bool ends_in(const char *name, const char *end) {
    const size_t length = strlen(name), bytes = strlen(end);
    return length > bytes && strcasecmp(name + length - bytes, end) == 0;
}

static const kind *kind_of(const char *name, const char *data, size_t length) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kind *k = &kinds[i];
        if (length < k->length || memcmp(data, k->magic, k->length) != 0) continue;
        // Texts may begin with BZh: behind it stand a digit and the digits of pi.
        if (k->length == 3 && (length < 10 || !isdigit((unsigned char)data[3]) || memcmp(data + 4, "1AY&SY", 6) != 0))
            continue;
        return k;
    }
    if (length < 4 || (memcmp(data, "PK\3\4", 4) != 0 && memcmp(data, "PK\5\6", 4) != 0)) return NULL;
    static const char first[] = "[Content_Types].xml"; // by which Office's begin, behind 30 bytes
    const bool office = length >= 30 + sizeof first - 1 && memcmp(data + 30, first, sizeof first - 1) == 0;
    return ends_in(name, ".xlsx") || ends_in(name, ".xlsm") || office ? &workbook : &archive;
}

ft_status ft_refuse_kind(const char *name, const char *data, size_t length) {
    const kind *found = length > 0 ? kind_of(name, data, length) : NULL;
    if (found == NULL) return FT_OK;
    ft_fail(FT_INVALID, name, "this is %s; texts are read from TSV, CSV, JSON and plain text", found->name);
    if (strcmp(name, "<stdin>") == 0)
        ft_hint("save it as a file; then the message says how to make texts of it");
    else ft_hint(found->hint, name, name);
    return FT_INVALID;
}

static bool is_scheme(const char *text, size_t length) {
    static const char *const schemes[] = {"http", "https", "ftp", "s3", "gs", "hf"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strlen(schemes[i]) == length && strncasecmp(schemes[i], text, length) == 0) return true;
    return false;
}

ft_status ft_refuse_address(const char *path) {
    const char *colon = strstr(path, ":/");
    if (colon == NULL || access(path, F_OK) == 0) return FT_OK;
    const char *start = colon;
    while (start > path && isalnum((unsigned char)start[-1]))
        start--;
    if (!is_scheme(start, (size_t)(colon - start)) || (start > path && start[-1] != '/')) return FT_OK;
    const char *rest = colon + 1 + strspn(colon + 1, "/"); // a configuration's path may have lost one of them
    const int scheme = (int)(colon - start);
    ft_fail(FT_INVALID, path, "this is an address, and data are read from files");
    if (strncmp(start, "hf:", 3) == 0)
        ft_hint("the program hf fetches it: hf download --repo-type dataset OWNER/NAME FILE");
    else
        ft_hint("curl -LO '%.*s://%s' fetches it", scheme, start, rest);
    return FT_INVALID;
}
