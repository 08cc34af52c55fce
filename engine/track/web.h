// web.h - one request to a program that is told something, and its answer, over libcurl (engine/hub/curl_library.h).
// Nothing of an address but its host is in a message: the rest of it may be a secret, as headers are.
#ifndef FT_TRACK_WEB_H
#define FT_TRACK_WEB_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_web ft_web;
// insecure: certificates are not looked at. authority: a file that is trusted instead of the system's (NULL: as pull
// does). FT_FAILED: no libcurl; FT_INVALID: certificates that are not there.
ft_status ft_web_open(bool insecure, const char *authority, ft_web **web);
void ft_web_close(ft_web *web); // NULL is fine

typedef struct ft_web_request {
    const char *method;          // "GET", "POST", "PUT", "PATCH"
    const char *url;             // http or https
    const char *const *headers;  // whole lines, ends with NULL; NULL: none
    const char *user, *password; // Basic; NULL: none
    const char *body;            // [length]; NULL: none
    size_t length;
    const char *file; // sent instead of `body`; NULL: none
    double timeout;   // seconds for all of it
} ft_web_request;

typedef struct ft_web_answer {
    int status;
    double retry_after; // seconds; -1: it did not say
    char *text;         // NUL-terminated, at most FT_WEB_LARGEST bytes; free() it
    size_t length;
} ft_web_answer;
enum { FT_WEB_LARGEST = 8 << 20 };

// FT_OK: there was an answer, whatever it says; redirects are answers. FT_FAILED: there was none. `answer` is set in
// any case.
ft_status ft_web_send(ft_web *web, const ft_web_request *request, ft_web_answer *answer);
// "tracker.example.org" of an address, "?" where it has none.
const char *ft_web_host(const char *url, char *out, size_t size);
bool ft_web_is_address(const char *url); // http:// or https:// and a host

#endif
