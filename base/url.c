#include "base/url.h"

#include <ctype.h>
#include <string.h>

ft_url_kind ft_url_kind_of(const char *url, size_t *scheme) {
    static const char file[] = "sqlite:///";
    const char *mark = strstr(url, "://"), *slash = strchr(url, '/');
    *scheme = 0;
    if (strncmp(url, file, sizeof file - 1) == 0) {
        *scheme = sizeof file - 1;
        return FT_URL_FILE;
    }
    if (strncmp(url, "journal:", 8) == 0) {
        *scheme = 8;
        return FT_URL_JOURNAL;
    }
    if (mark == NULL || slash < mark) return FT_URL_FILE; // "a/b://c" is a path
    *scheme = (size_t)(mark - url) + 3;
    const size_t name = strcspn(url, "+:");
    const bool postgres =
        (name == 10 && strncmp(url, "postgresql", name) == 0) || (name == 8 && strncmp(url, "postgres", name) == 0);
    return postgres ? FT_URL_POSTGRES : FT_URL_UNKNOWN;
}

// A password may hold characters that should have been written as %XX: what lies between the user and the last '@' is
// taken for it, wherever it is.
typedef struct parts {
    const char *user, *rest, *parameters; // rest: behind the last '@'; parameters: the '?', or the end
    size_t user_length;
} parts;

static parts parts_of(const char *text) {
    parts p = {.user = text, .rest = strrchr(text, '@')};
    if (p.rest == NULL) {
        p.rest = text;
    } else {
        p.user_length = strcspn(text, ":@");
        p.rest++;
    }
    p.parameters = p.rest + strcspn(p.rest, "?");
    return p;
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static char *decoded(ft_arena *arena, const char *text, size_t length) {
    char *out = ft_arena_strndup(arena, text, length);
    if (out == NULL) return NULL;
    char *to = out;
    for (const char *c = out; *c != '\0'; c++) {
        const bool coded = *c == '%' && hex(c[1]) >= 0 && hex(c[2]) >= 0;
        *to++ = coded ? (char)(16 * hex(c[1]) + hex(c[2])) : *c;
        if (coded) c += 2;
    }
    *to = '\0';
    return out;
}

char *ft_url_plain(ft_arena *arena, const char *url, char **password) {
    size_t scheme;
    *password = NULL;
    if (ft_url_kind_of(url, &scheme) != FT_URL_POSTGRES) return ft_arena_strdup(arena, url);
    const char *text = url + scheme, *at = strrchr(text, '@');
    const char *colon = at != NULL ? memchr(text, ':', (size_t)(at - text)) : NULL;
    if (colon == NULL) return ft_arena_format(arena, "postgresql://%s", text);
    *password = decoded(arena, colon + 1, (size_t)(at - colon - 1));
    return *password != NULL ? ft_arena_format(arena, "postgresql://%.*s%s", (int)(colon - text), text, at) : NULL;
}

// All but passwords (password, sslpassword).
static char *parameters_shown(ft_arena *arena, const char *parameters) {
    char *out = ft_arena_strdup(arena, parameters);
    if (out == NULL) return NULL;
    char *to = out;
    for (const char *at = parameters; *at != '\0';) {
        const size_t length = 1 + strcspn(at + 1, "&"), key = strcspn(at + 1, "=&");
        const bool secret = key >= 8 && strncmp(at + 1 + key - 8, "password", 8) == 0;
        if (!secret) {
            memcpy(to, at, length);
            if (to == out) *to = '?';
            to += length;
        }
        at += length;
    }
    *to = '\0';
    return out;
}

char *ft_url_shown(ft_arena *arena, const char *url) {
    size_t scheme;
    if (ft_url_kind_of(url, &scheme) != FT_URL_POSTGRES) return ft_arena_strdup(arena, url);
    const parts p = parts_of(url + scheme);
    // "user:secret" with its '@' forgotten looks as a host with a port.
    size_t shown = (size_t)(p.parameters - p.rest);
    const char *colon = memchr(p.rest, ':', shown);
    if (colon != NULL && p.rest[0] != '[') {
        const char *end = colon + 1;
        while (isdigit((unsigned char)*end))
            end++;
        if (end != p.parameters && *end != '/' && *end != ',') shown = (size_t)(colon - p.rest);
    }
    const char *parameters = parameters_shown(arena, p.parameters);
    return parameters == NULL ? NULL
                              : ft_arena_format(arena, "postgresql://%.*s%s%.*s%s", (int)p.user_length, p.user,
                                                p.user_length > 0 ? "@" : "", (int)shown, p.rest, parameters);
}

bool ft_url_hide(char *url) {
    static const char key[] = "password=";
    size_t scheme;
    bool hidden = false;
    if (ft_url_kind_of(url, &scheme) != FT_URL_POSTGRES) return false;
    char *text = url + scheme, *at = strrchr(text, '@');
    char *password = at != NULL ? text + strcspn(text, ":@") : NULL;
    for (; password != NULL && password + 1 < at; hidden = true)
        *++password = 'x';
    for (char *found = text; (found = strstr(found, key)) != NULL;)
        for (found += sizeof key - 1; *found != '\0' && *found != '&'; hidden = true)
            *found++ = 'x';
    return hidden;
}
