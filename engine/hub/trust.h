// trust.h - whose certificates are accepted when a hub is asked over https: the system's, or what the environment names, by
// the variables that programs around huggingface_hub know.
//
//     SSL_CERT_FILE, SSL_CERT_DIR          as OpenSSL and huggingface_hub >= 1.0: each takes the place of the system's own
//                                          file or directory
//     REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE   as requests and older huggingface_hub, where neither of the above is set: a file or
//                                          a directory, and nothing else is trusted
// An empty variable is none: certificates are always checked.
#ifndef FT_HUB_TRUST_H
#define FT_HUB_TRUST_H

#include "base/status.h"

#include <stdbool.h>

typedef struct ft_trust {
    const char *variable;         // that decided; NULL: the system's
    const char *file, *directory; // of the environment; NULL: the system's, or none with `alone`
    bool alone;
} ft_trust;

// FT_INVALID when a variable names what is not there.
ft_status ft_trust_find(ft_trust *trust);

#endif
