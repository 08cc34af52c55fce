#include "engine/hub/http.h"

#include "base/arena.h"
#include "engine/hub/curl_library.h"
#include "engine/hub/trust.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_REDIRECTS = 10, CONNECT_SECONDS = 20, SILENT_SECONDS = 60, LARGEST_HEADER = 16384 };

struct ft_http {
    const ft_curl *lib;
    CURL *curl;
    char *endpoint, *authorization; // the whole header line
    bool (*stopped)(void);
    ft_trust trust;
    char error[CURL_ERROR_SIZE];
};

// ---- origins ------------------------------------------------------------------------------------------------------

typedef struct origin {
    char *scheme, *host, *port;
} origin;

static void origin_free(const ft_curl *lib, origin *o) {
    lib->free(o->scheme);
    lib->free(o->host);
    lib->free(o->port);
}

static bool origin_of(const ft_curl *lib, const char *url, origin *o) {
    CURLU *u = lib->url();
    *o = (origin){0};
    bool fine = u != NULL && lib->url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
                lib->url_get(u, CURLUPART_SCHEME, &o->scheme, 0) == CURLUE_OK &&
                lib->url_get(u, CURLUPART_HOST, &o->host, 0) == CURLUE_OK &&
                lib->url_get(u, CURLUPART_PORT, &o->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    lib->url_cleanup(u);
    return fine;
}

// What cannot be parsed is nobody's.
static bool same_origin(const ft_curl *lib, const char *a, const char *b) {
    origin x, y;
    bool read_x = origin_of(lib, a, &x), read_y = origin_of(lib, b, &y);
    bool same = read_x && read_y && strcasecmp(x.scheme, y.scheme) == 0 && strcasecmp(x.host, y.host) == 0 &&
                strcmp(x.port, y.port) == 0;
    origin_free(lib, &x);
    origin_free(lib, &y);
    return same;
}

bool ft_http_same_origin(const ft_http *http, const char *url) { return same_origin(http->lib, http->endpoint, url); }

// The host alone: signed addresses of storage are secrets of their own.
static void shown_host(const ft_curl *lib, const char *url, char *out, size_t size) {
    origin o;
    snprintf(out, size, "%s", origin_of(lib, url, &o) ? o.host : "?");
    origin_free(lib, &o);
}

// The address that `location` means when it stands in an answer of `base`, on curl's heap.
static ft_status resolve(const ft_curl *lib, const char *base, const char *location, const char *what, char **out) {
    CURLU *u = lib->url();
    CURLUcode code = u != NULL ? lib->url_set(u, CURLUPART_URL, base, 0) : CURLUE_OUT_OF_MEMORY;
    if (code == CURLUE_OK) code = lib->url_set(u, CURLUPART_URL, location, 0);
    if (code == CURLUE_OK) code = lib->url_get(u, CURLUPART_URL, out, 0);
    lib->url_cleanup(u);
    if (code == CURLUE_OK) return FT_OK;
    *out = NULL;
    if (code == CURLUE_OUT_OF_MEMORY) return ft_fail_memory(0, "an address");
    return ft_fail(FT_FAILED, what, "the hub leads to an address that cannot be followed");
}

char *ft_http_escape(const char *text) {
    char *out = ft_calloc(3 * strlen(text) + 1, 1, "an address"), *to = out;
    for (; out != NULL && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (isalnum(c) || strchr("-._~", c) != NULL)
            *to++ = (char)c;
        else
            to += sprintf(to, "%%%02X", c);
    }
    return out;
}

// ---- one answer ---------------------------------------------------------------------------------------------------

typedef struct exchange {
    ft_http *http;
    const ft_http_request *request;
    ft_http_answer *answer;
    bool trusted; // the hub answers, not what it redirects to
    bool begun;
    ft_status status; // of the callbacks
} exchange;

static void keep(char *out, size_t size, const char *value, size_t length) {
    if (length < size) snprintf(out, size, "%.*s", (int)length, value); // what is longer is none of ours
}

// "bytes 100-199/200" and "bytes */200".
static void read_range(ft_http_answer *a, const char *value) {
    const char *slash = strchr(value, '/');
    if (strncasecmp(value, "bytes", 5) != 0 || slash == NULL) return;
    value += 5 + strspn(value + 5, " =");
    if (isdigit((unsigned char)*value)) a->range_from = strtoll(value, NULL, 10);
    if (isdigit((unsigned char)slash[1])) a->total = strtoll(slash + 1, NULL, 10);
}

// Seconds, or a date.
static double read_retry_after(const ft_curl *lib, const char *value) {
    if (isdigit((unsigned char)*value)) return strtod(value, NULL);
    time_t now = time(NULL), then = lib->getdate(value, &now);
    return then == (time_t)-1 ? -1 : then > now ? (double)(then - now) : 0;
}

static void read_next(ft_http_answer *a, const char *value, size_t length) { // <address>; rel="next"
    const char *open = memchr(value, '<', length), *close = open != NULL ? strchr(open, '>') : NULL;
    if (close != NULL && strstr(close, "rel=\"next\"") != NULL)
        keep(a->next, sizeof a->next, open + 1, (size_t)(close - open - 1));
}

static void take_header(exchange *x, const char *name, size_t name_length, const char *value, size_t length) {
    ft_http_answer *a = x->answer;
#define IS(text) (name_length == sizeof text - 1 && strncasecmp(name, text, name_length) == 0)
    if (IS("content-length"))
        a->length = strtoll(value, NULL, 10);
    else if (IS("content-range"))
        read_range(a, value);
    else if (IS("retry-after"))
        a->retry_after = read_retry_after(x->http->lib, value);
    else if (IS("location"))
        keep(a->location, sizeof a->location, value, length);
    else if (!x->trusted)
        return;
    else if (IS("etag"))
        keep(a->etag, sizeof a->etag, value, length);
    else if (IS("x-linked-etag"))
        keep(a->linked_etag, sizeof a->linked_etag, value, length);
    else if (IS("x-repo-commit"))
        keep(a->commit, sizeof a->commit, value, length);
    else if (IS("x-error-code"))
        keep(a->error_code, sizeof a->error_code, value, length);
    else if (IS("link"))
        read_next(a, value, length);
#undef IS
}

static size_t on_header(char *data, size_t size, size_t count, void *context) {
    exchange *x = context;
    size_t length = size * count;
    char line[LARGEST_HEADER];
    if (length >= sizeof line) return length;
    memcpy(line, data, length);
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        length--;
    line[length] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) { // also behind a "100 Continue"
        x->answer->length = x->answer->range_from = x->answer->total = -1;
        x->answer->location[0] = '\0';
        return size * count;
    }
    const char *colon = strchr(line, ':');
    if (colon == NULL) return size * count;
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    take_header(x, line, (size_t)(colon - line), value, strlen(value));
    return size * count;
}

static bool is_success(int status) { return status >= 200 && status < 300; }

static ft_status begin(exchange *x) {
    long code = 0;
    x->http->lib->easy_getinfo(x->http->curl, CURLINFO_RESPONSE_CODE, &code);
    x->answer->status = (int)code;
    x->begun = true;
    return is_success(x->answer->status) ? x->request->begin(x->request->context, x->answer) : FT_OK;
}

static size_t on_body(char *data, size_t size, size_t count, void *context) {
    exchange *x = context;
    if (!x->begun) x->status = begin(x);
    if (x->status == FT_OK && is_success(x->answer->status))
        x->status = x->request->body(x->request->context, data, size * count);
    return x->status == FT_OK ? size * count : 0;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up) {
    const exchange *x = context;
    if (x->request->progress != NULL) x->request->progress(x->request->context);
    return x->http->stopped() ? 1 : 0;
}

// ---- requests -----------------------------------------------------------------------------------------------------

static ft_status add_line(const ft_curl *lib, struct curl_slist **list, const char *line) {
    struct curl_slist *longer = lib->slist_append(*list, line);
    if (longer == NULL) return ft_fail_memory(strlen(line), "a header");
    *list = longer;
    return FT_OK;
}

static ft_status make_headers(const exchange *x, struct curl_slist **list) {
    const ft_curl *lib = x->http->lib;
    char range[64];
    FT_TRY(add_line(lib, list, "Accept-Encoding: identity")); // lengths and ranges are those of the file
    if (x->trusted && x->http->authorization != NULL) FT_TRY(add_line(lib, list, x->http->authorization));
    if (x->request->from == 0) return FT_OK;
    snprintf(range, sizeof range, "Range: bytes=%lld-", (long long)x->request->from);
    return add_line(lib, list, range);
}

// Of the server and of a proxy that is spoken to over https. NULL takes away what libcurl has built in.
static void set_trust(const ft_curl *lib, CURL *c, const ft_trust *t) {
    if (t->file != NULL || t->alone) {
        lib->easy_setopt(c, CURLOPT_CAINFO, t->file);
        lib->easy_setopt(c, CURLOPT_PROXY_CAINFO, t->file);
    }
    if (t->directory != NULL || t->alone) {
        lib->easy_setopt(c, CURLOPT_CAPATH, t->directory);
        lib->easy_setopt(c, CURLOPT_PROXY_CAPATH, t->directory);
    }
}

static void set_options(exchange *x, const char *url, struct curl_slist *headers) {
    const ft_curl *lib = x->http->lib;
    CURL *c = x->http->curl;
    lib->easy_reset(c); // connections stay
    lib->easy_setopt(c, CURLOPT_URL, url);
    lib->easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    lib->easy_setopt(c, CURLOPT_USERAGENT, "ftengine/" FT_VERSION);
#if CURL_AT_LEAST_VERSION(7, 85, 0)
    lib->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    lib->easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    lib->easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L); // ours to do: who gets the token depends on it
    lib->easy_setopt(c, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE); // a proxy gets none of ours
    lib->easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);         // and what it says is not the hub's word
    set_trust(lib, c, &x->http->trust);
    lib->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    lib->easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    lib->easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    lib->easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SILENT_SECONDS);
    lib->easy_setopt(c, CURLOPT_ERRORBUFFER, x->http->error);
    lib->easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    lib->easy_setopt(c, CURLOPT_HEADERDATA, x);
    lib->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    lib->easy_setopt(c, CURLOPT_WRITEDATA, x);
    lib->easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    lib->easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    lib->easy_setopt(c, CURLOPT_XFERINFODATA, x);
}

// Somebody's certificates, a name, or a date: `why` says which.
static ft_status fail_certificate(const exchange *x, const char *host, const char *why) {
    const ft_trust *t = &x->http->trust;
    ft_fail(FT_FAILED, x->request->what, "the certificate of %s is not accepted: %s", host, why);
    if (t->variable != NULL) ft_hint("it was checked against %s=%s", t->variable, t->file != NULL ? t->file : t->directory);
    else ft_hint("behind a proxy with certificates of its own, SSL_CERT_FILE or REQUESTS_CA_BUNDLE names the file of its authority");
    return FT_FAILED;
}

// A failure below HTTP. Certificates, malformed addresses and the like do not get better by waiting.
static ft_status fail_transfer(const exchange *x, const char *url, CURLcode code, bool *again) {
    char host[256];
    shown_host(x->http->lib, url, host, sizeof host);
    const char *why = x->http->error[0] != '\0' ? x->http->error : x->http->lib->easy_strerror(code);
    switch (code) {
    case CURLE_OUT_OF_MEMORY: return ft_fail_memory(0, "a request");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: return fail_certificate(x, host, why);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        *again = x->answer->unreachable = true;
        ft_fail(FT_FAILED, x->request->what, "%s cannot be reached: %s", host, why);
        ft_hint("without a way to the hub: copy the model's files here and set model.path to their directory");
        return FT_FAILED;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
        *again = true;
        return ft_fail(FT_FAILED, x->request->what, "the connection to %s broke: %s", host, why);
    default: return ft_fail(FT_FAILED, x->request->what, "the transfer from %s failed: %s", host, why);
    }
}

// One answer, be it a redirect.
static ft_status exchange_once(exchange *x, const char *url, bool *again) {
    struct curl_slist *headers = NULL;
    ft_status status = make_headers(x, &headers);
    x->http->error[0] = '\0';
    x->begun = false;
    x->answer->retry_after = -1;
    if (status == FT_OK) {
        set_options(x, url, headers);
        CURLcode code = x->http->lib->easy_perform(x->http->curl);
        if (x->status != FT_OK)
            status = x->status;
        else if (x->http->stopped())
            status = ft_fail(FT_INTERRUPTED, x->request->what, "stopped");
        else if (code != CURLE_OK)
            status = fail_transfer(x, url, code, again);
        else if (!x->begun)
            status = begin(x); // there was no body
    }
    x->http->lib->slist_free_all(headers);
    return status;
}

static ft_status follow(exchange *x, char **url) {
    const ft_curl *lib = x->http->lib;
    char host[256];
    char *next;
    FT_TRY(resolve(lib, *url, x->answer->location, x->request->what, &next));
    shown_host(lib, next, host, sizeof host);
    if (strncasecmp(*url, "https:", 6) == 0 && strncasecmp(next, "https:", 6) != 0) {
        lib->free(next);
        return ft_fail(FT_FAILED, x->request->what, "a redirect to %s leaves https, which is not followed", host);
    }
    if (!ft_http_same_origin(x->http, next)) x->trusted = false; // and never again in this chain
    lib->free(*url);
    *url = next;
    return FT_OK;
}

static ft_status chain(exchange *x, char **url, bool *again) {
    for (int hop = 0; hop <= MOST_REDIRECTS; hop++) {
        FT_TRY(exchange_once(x, *url, again));
        int status = x->answer->status;
        if (is_success(status)) return FT_OK;
        if (status < 300 || status >= 400 || x->answer->location[0] == '\0') {
            x->answer->from_hub = x->trusted;
            // Storage says 403 when a signed address is too old; the hub gives a new one.
            *again = status == 408 || status == 429 || status >= 500 || (status == 403 && !x->trusted);
            return ft_fail(FT_FAILED, x->request->what, "the answer was %d", status);
        }
        FT_TRY(follow(x, url));
    }
    return ft_fail(FT_FAILED, x->request->what, "more than %d redirects", MOST_REDIRECTS);
}

ft_status ft_http_get(ft_http *http, const ft_http_request *request, ft_http_answer *answer, bool *again) {
    *answer = (ft_http_answer){.length = -1, .range_from = -1, .total = -1, .retry_after = -1};
    *again = false;
    exchange x = {
        .http = http, .request = request, .answer = answer, .trusted = ft_http_same_origin(http, request->url)};
    char *url;
    FT_TRY(resolve(http->lib, request->url, request->url, request->what, &url));
    ft_status status = chain(&x, &url, again);
    http->lib->free(url);
    return status;
}

ft_status ft_http_open(const char *endpoint, const char *token, bool (*stopped)(void), ft_http **http) {
    *http = NULL;
    ft_trust trust;
    FT_TRY(ft_trust_find(&trust));
    const ft_curl *lib;
    FT_TRY(ft_curl_load(&lib));
    ft_http *h = ft_calloc(1, sizeof *h, "a connection");
    if (h == NULL) return FT_NO_MEMORY;
    h->lib = lib;
    h->stopped = stopped;
    h->trust = trust;
    size_t room = (token != NULL ? strlen(token) : 0) + 32;
    h->endpoint = ft_calloc(strlen(endpoint) + 1, 1, "an address");
    if (token != NULL) h->authorization = ft_calloc(room, 1, "a header");
    bool fine = h->endpoint != NULL && (token == NULL || h->authorization != NULL);
    if (fine) {
        strcpy(h->endpoint, endpoint);
        if (token != NULL) snprintf(h->authorization, room, "Authorization: Bearer %s", token);
        h->curl = lib->easy_init();
    }
    if (fine && h->curl != NULL) return *http = h, FT_OK;
    ft_http_close(h);
    return fine ? ft_fail_memory(0, "a connection") : FT_NO_MEMORY;
}

void ft_http_close(ft_http *http) {
    if (http == NULL) return;
    if (http->curl != NULL) http->lib->easy_cleanup(http->curl);
    if (http->authorization != NULL) explicit_bzero(http->authorization, strlen(http->authorization));
    free(http->authorization);
    free(http->endpoint);
    free(http);
}
