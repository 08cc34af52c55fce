// http.h - GET over libcurl for talking to a hub: redirects, ranges, and what the answers' headers say. One request is
// tried once; trying again is the caller's business, who knows how far it came.
//
// The token goes to the origin (scheme, host and port) of the endpoint and to no other: when a redirect leads
// elsewhere, as all large files' do, neither that request nor a later one of the same chain carries it. It is in no
// message. A redirect from https to http is not followed. Certificates are checked against the system's authorities, or those
// that the environment names (trust.h).
#ifndef FT_HUB_HTTP_H
#define FT_HUB_HTTP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_http ft_http;
// token: NULL for none. `stopped` is asked a few times a second; when it says yes the request ends with FT_INTERRUPTED.
// FT_INVALID: the environment names certificates that are not there.
ft_status ft_http_open(const char *endpoint, const char *token, bool (*stopped)(void), ft_http **http);
void ft_http_close(ft_http *http); // NULL is fine

// What the last answer said; texts are "" and numbers -1 where it said nothing.
typedef struct ft_http_answer {
    int status;       // 0: there was no answer
    bool unreachable; // nor a connection
    int64_t length;             // Content-Length of the body
    int64_t range_from, total;  // Content-Range: first byte, bytes of the whole
    double retry_after;         // seconds
    char etag[160], commit[80]; // of the hub's own answers only, not of those that it redirects to
    char linked_etag[160];
    char error_code[80]; // X-Error-Code: RepoNotFound, RevisionNotFound, EntryNotFound, GatedRepo, ...
    char next[2048];     // Link: rel="next"
    char location[8192];
    bool from_hub; // of a refusal: it is the hub's, not that of a place it redirected to
} ft_http_answer;

typedef struct ft_http_request {
    const char *url;
    const char *what;   // for messages: "microsoft/deberta-v3-base: config.json"
    int64_t from;       // first byte wanted; 0: all
    bool range_refused; // set by ft_hub_get: there is nothing from this byte on (416)
    // The answer's headers, once, before its body; then the body in pieces. Only for answers of 2xx. A status that is
    // not FT_OK ends the request and is its status. `progress` (or NULL) is called a few times a second, also while
    // nothing comes.
    ft_status (*begin)(void *context, const ft_http_answer *answer);
    ft_status (*body)(void *context, const void *data, size_t bytes);
    void (*progress)(void *context);
    void *context;
} ft_http_request;

// FT_OK for an answer of 2xx that came to its end. Otherwise the error is set, and *again says whether the same request
// may succeed later (the connection broke, 408, 429, 5xx).
ft_status ft_http_get(ft_http *http, const ft_http_request *request, ft_http_answer *answer, bool *again);
// Is `url` at the scheme, host and port of the endpoint?
bool ft_http_same_origin(const ft_http *http, const char *url);
// `text` with all but letters, digits and -._~ as %XX, on the heap; NULL with the error set.
char *ft_http_escape(const char *text);

#endif
