// url.h - what the place of a study's database is called: which kind it is, and how it is shown to people. An address
// may hold a password; what is shown never does.
#ifndef FT_URL_H
#define FT_URL_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum ft_url_kind {
    FT_URL_FILE,     // sqlite:///FILE or just a path
    FT_URL_JOURNAL,  // journal:FILE
    FT_URL_POSTGRES, // postgresql://..., also with SQLAlchemy's driver (postgresql+psycopg2://...), or postgres://
    FT_URL_UNKNOWN,  // another scheme
} ft_url_kind;
ft_url_kind ft_url_kind_of(const char *url,
                           size_t *scheme); // *scheme: bytes of it with its "://" or ":", 0: there is none
static inline bool ft_url_is_postgres(const char *url) {
    size_t scheme;
    return ft_url_kind_of(url, &scheme) == FT_URL_POSTGRES;
}

// postgresql://USER@HOST:PORT/NAME?KEY=VALUE: without passwords and driver. NULL: no memory.
char *ft_url_shown(ft_arena *arena, const char *url);
// As libpq takes it: without the driver, and without the password behind the user's name, which is *password (decoded),
// or NULL.
char *ft_url_plain(ft_arena *arena, const char *url, char **password);
// Overwrites the password in `url`, which is an argument of this process that others can read, with 'x'. false: it has
// none.
bool ft_url_hide(char *url);

#endif
