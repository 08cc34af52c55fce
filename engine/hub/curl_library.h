// curl_library.h - libcurl, loaded when something is fetched and not before: it brings thirty libraries along, which
// would cost every plan and every trial of a study 10 ms and 5 MiB, and only `ftengine pull` uses them.
#ifndef FT_HUB_CURL_LIBRARY_H
#define FT_HUB_CURL_LIBRARY_H

#include "base/status.h"

#include <curl/curl.h>

#define FT_CURL_FUNCTIONS(X)                                                                                           \
    X(easy_init)                                                                                                       \
    X(easy_cleanup) X(easy_reset) X(easy_perform) X(easy_setopt) X(easy_getinfo) X(easy_strerror) X(slist_append)      \
        X(slist_free_all) X(url) X(url_cleanup) X(url_set) X(url_get) X(free) X(getdate)

typedef struct ft_curl {
#define X(name) __typeof__(curl_##name) *name;
    FT_CURL_FUNCTIONS(X)
#undef X
} ft_curl;

// Loads it at the process's first call, which any thread may make; *curl stays valid. FT_FAILED when it is not installed.
ft_status ft_curl_load(const ft_curl **curl);

#endif
