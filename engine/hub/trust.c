#include "engine/hub/trust.h"

#include <stdlib.h>
#include <sys/stat.h>

static const char *set(const char *variable) {
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

// libcurl would say no more than that a file is bad, and OpenSSL nothing.
static ft_status look(const char *variable, const char *path, bool *is_directory) {
    struct stat at;
    if (stat(path, &at) != 0) return ft_fail(FT_INVALID, variable, "names certificates that are not there: %s", path);
    *is_directory = S_ISDIR(at.st_mode);
    return FT_OK;
}

static ft_status of_openssl(ft_trust *t) {
    bool is_directory;
    t->file = set("SSL_CERT_FILE");
    t->directory = set("SSL_CERT_DIR");
    if (t->directory != NULL) t->variable = "SSL_CERT_DIR"; // a list: its parts are not looked at
    if (t->file == NULL) return FT_OK;
    t->variable = "SSL_CERT_FILE";
    FT_TRY(look(t->variable, t->file, &is_directory));
    return is_directory ? ft_fail(FT_INVALID, t->variable, "is a directory: %s", t->file) : FT_OK;
}

static ft_status of_requests(ft_trust *t) {
    bool is_directory;
    t->variable = set("REQUESTS_CA_BUNDLE") != NULL ? "REQUESTS_CA_BUNDLE" : "CURL_CA_BUNDLE";
    const char *path = set(t->variable);
    if (path == NULL) return t->variable = NULL, FT_OK;
    FT_TRY(look(t->variable, path, &is_directory));
    t->alone = true;
    if (is_directory) t->directory = path;
    else t->file = path;
    return FT_OK;
}

ft_status ft_trust_find(ft_trust *t) {
    *t = (ft_trust){.variable = NULL};
    FT_TRY(of_openssl(t));
    return t->variable != NULL ? FT_OK : of_requests(t);
}
