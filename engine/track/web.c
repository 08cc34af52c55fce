#include "engine/track/web.h"

#include "base/heap.h"
#include "engine/hub/curl_library.h"
#include "engine/hub/trust.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct ft_web {
    const ft_curl *lib;
    CURL *curl;
    ft_trust trust;
    bool insecure;
    const char *authority;
    char error[CURL_ERROR_SIZE];
};

ft_status ft_web_open(bool insecure, const char *authority, ft_web **web) {
    ft_trust trust;
    const ft_curl *lib;
    *web = NULL;
    FT_TRY(ft_trust_find(&trust));
    FT_TRY(ft_curl_load(&lib));
    ft_web *w = ft_calloc(1, sizeof *w, "a connection");
    if (w == NULL) return FT_NO_MEMORY;
    *w = (ft_web){.lib = lib, .trust = trust, .insecure = insecure, .authority = authority, .curl = lib->easy_init()};
    if (w->curl != NULL) return *web = w, FT_OK;
    free(w);
    return ft_fail_memory(0, "a connection");
}

void ft_web_close(ft_web *w) {
    if (w == NULL) return;
    w->lib->easy_cleanup(w->curl);
    free(w);
}

static size_t scheme_length(const char *url) {
    return strncasecmp(url, "https://", 8) == 0 ? 8 : strncasecmp(url, "http://", 7) == 0 ? 7 : 0;
}

const char *ft_web_host(const char *url, char *out, size_t size) {
    const char *host = url + scheme_length(url), *end = host + strcspn(host, "/?#\\");
    for (const char *c = host; c < end; c++) // behind a name and password
        if (*c == '@') host = c + 1;
    snprintf(out, size, "%.*s", (int)(end - host), host);
    if (out[0] == '\0') snprintf(out, size, "?");
    return out;
}

bool ft_web_is_address(const char *url) {
    const size_t length = scheme_length(url);
    if (length == 0 || url[length] == '\0' || strchr("/?#:@", url[length]) != NULL) return false;
    for (const char *c = url; *c != '\0'; c++)
        if (!isgraph((unsigned char)*c)) return false; // a blank or line break would end it
    return true;
}

// ---- an answer ----------------------------------------------------------------------------------------------------

static size_t on_body(char *data, size_t size, size_t count, void *context) {
    ft_web_answer *a = context;
    const size_t bytes = size * count;
    if (bytes > FT_WEB_LARGEST - a->length) return 0;
    char *grown = ft_realloc(a->text, a->length + bytes + 1, 1, "an answer");
    if (grown == NULL) return 0;
    a->text = grown;
    memcpy(grown + a->length, data, bytes);
    a->length += bytes;
    grown[a->length] = '\0';
    return bytes;
}

// Seconds; a date is left to the caller's own pace.
static size_t on_header(char *data, size_t size, size_t count, void *context) {
    static const char name[] = "retry-after:";
    ft_web_answer *a = context;
    const size_t bytes = size * count;
    char value[24];
    if (bytes < sizeof name || strncasecmp(data, name, sizeof name - 1) != 0) return bytes;
    snprintf(value, sizeof value, "%.*s", (int)(bytes - (sizeof name - 1)), data + sizeof name - 1);
    const char *digits = value + strspn(value, " \t");
    if (isdigit((unsigned char)*digits)) a->retry_after = strtod(digits, NULL);
    return bytes;
}

// ---- a request ----------------------------------------------------------------------------------------------------

static void set_trust(const ft_web *w) {
    const ft_trust *t = &w->trust;
    const char *file = w->authority != NULL ? w->authority : t->file;
    if (file != NULL || t->alone) w->lib->easy_setopt(w->curl, CURLOPT_CAINFO, file);
    if ((t->directory != NULL || t->alone) && w->authority == NULL)
        w->lib->easy_setopt(w->curl, CURLOPT_CAPATH, t->directory);
    if (!w->insecure) return;
    w->lib->easy_setopt(w->curl, CURLOPT_SSL_VERIFYPEER, 0L);
    w->lib->easy_setopt(w->curl, CURLOPT_SSL_VERIFYHOST, 0L);
}

static void set_options(ft_web *w, const ft_web_request *r, struct curl_slist *headers, ft_web_answer *answer) {
    const ft_curl *lib = w->lib;
    CURL *c = w->curl;
    lib->easy_reset(c);
    lib->easy_setopt(c, CURLOPT_URL, r->url);
    lib->easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
    lib->easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    lib->easy_setopt(c, CURLOPT_USERAGENT, "ftengine/" FT_VERSION);
#if LIBCURL_VERSION_NUM >= 0x075500
    lib->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    lib->easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    lib->easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    lib->easy_setopt(c, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    set_trust(w);
    if (r->user != NULL) {
        lib->easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        lib->easy_setopt(c, CURLOPT_USERNAME, r->user);
        lib->easy_setopt(c, CURLOPT_PASSWORD, r->password != NULL ? r->password : "");
    }
    if (r->body != NULL) {
        lib->easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->length);
        lib->easy_setopt(c, CURLOPT_POSTFIELDS, r->body);
    }
    lib->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    lib->easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(r->timeout * 1000) + 1);
    lib->easy_setopt(c, CURLOPT_ERRORBUFFER, w->error);
    lib->easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    lib->easy_setopt(c, CURLOPT_HEADERDATA, answer);
    lib->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    lib->easy_setopt(c, CURLOPT_WRITEDATA, answer);
}

static size_t read_file(char *out, size_t size, size_t count, void *stream) {
    return fread(out, 1, size * count, stream);
}

static ft_status set_file(ft_web *w, const char *path, FILE **file) {
    *file = fopen(path, "rbe");
    if (*file == NULL || fseeko(*file, 0, SEEK_END) != 0) return ft_fail_errno(FT_FAILED, errno, path, "cannot read");
    w->lib->easy_setopt(w->curl, CURLOPT_UPLOAD, 1L);
    w->lib->easy_setopt(w->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)ftello(*file));
    w->lib->easy_setopt(w->curl, CURLOPT_READFUNCTION, read_file);
    w->lib->easy_setopt(w->curl, CURLOPT_READDATA, *file);
    rewind(*file);
    return FT_OK;
}

static ft_status add_header(const ft_web *w, const char *line, struct curl_slist **list) {
    struct curl_slist *longer = w->lib->slist_append(*list, line);
    if (longer == NULL) return ft_fail_memory(0, "a header");
    *list = longer;
    return FT_OK;
}

static ft_status add_headers(const ft_web *w, const ft_web_request *r, struct curl_slist **list) {
    FT_TRY(add_header(w, "Expect:", list)); // or a body waits a second for servers that do not know it
    for (const char *const *line = r->headers; line != NULL && *line != NULL; line++)
        FT_TRY(add_header(w, *line, list));
    return FT_OK;
}

static ft_status perform(ft_web *w, const ft_web_request *r, ft_web_answer *answer) {
    char host[200];
    long code = 0;
    w->error[0] = '\0';
    const CURLcode result = w->lib->easy_perform(w->curl);
    if (result != CURLE_OK)
        return ft_fail(FT_FAILED, ft_web_host(r->url, host, sizeof host), "%s",
                       w->error[0] != '\0' ? w->error : w->lib->easy_strerror(result));
    w->lib->easy_getinfo(w->curl, CURLINFO_RESPONSE_CODE, &code);
    answer->status = (int)code;
    return FT_OK;
}

ft_status ft_web_send(ft_web *w, const ft_web_request *r, ft_web_answer *answer) {
    struct curl_slist *headers = NULL;
    FILE *file = NULL;
    *answer = (ft_web_answer){.retry_after = -1};
    ft_status status = add_headers(w, r, &headers);
    if (status == FT_OK) {
        set_options(w, r, headers, answer);
        if (r->file != NULL) status = set_file(w, r->file, &file);
    }
    if (status == FT_OK) status = perform(w, r, answer);
    w->lib->slist_free_all(headers);
    if (file != NULL) fclose(file);
    w->lib->easy_reset(w->curl); // nothing is kept of a password
    return status;
}
