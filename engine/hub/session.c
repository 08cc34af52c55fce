#include "engine/hub/session.h"

#include "base/files.h"
#include "base/log.h"
#include "engine/hub/cache.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { TRIES = 6, TRIES_TO_CONNECT = 3, LONGEST_TOKEN = 4096, LONGEST_WAIT = 300, LARGEST_TEXT = 64 << 20 };

// ---- settings -----------------------------------------------------------------------------------------------------

static const char *set(const char *variable) {
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_on(const char *variable) {
    static const char *const words[] = {"1", "on", "yes", "true"};
    const char *value = set(variable);
    for (size_t i = 0; value != NULL && i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(value, words[i]) == 0) return true;
    return false;
}

static ft_status choose_endpoint(ft_hub_session *s) {
    const char *given = set("HF_ENDPOINT") != NULL ? set("HF_ENDPOINT") : "https://huggingface.co";
    size_t length = strlen(given);
    while (length > 0 && given[length - 1] == '/')
        length--;
    bool http = strncasecmp(given, "http://", 7) == 0 || strncasecmp(given, "https://", 8) == 0;
    if (!http || strpbrk(given, " ?#@\\") != NULL) // '@': a password would end up in messages and in every answer's log
        return ft_fail(FT_INVALID, "HF_ENDPOINT",
                       "takes an address as https://huggingface.co, without a name or password in it");
    s->endpoint = ft_arena_strndup(&s->arena, given, length);
    return s->endpoint != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status read_token_file(char **text) {
    ft_arena arena = {0};
    size_t length;
    ft_status status = FT_OK;
    const char *path = set("HF_TOKEN_PATH");
    if (path == NULL) {
        const char *home = ft_hub_home(&arena);
        path = home != NULL ? ft_path_join(&arena, home, "token") : NULL;
    } else
        path = ft_path_absolute(&arena, NULL, path);
    if (path == NULL)
        status = ft_error_code();
    else if (ft_path_exists(path))
        status = ft_read_file(path, LONGEST_TOKEN, text, &length);
    ft_arena_free(&arena);
    return status;
}

// *token: on the heap, NULL for none.
static ft_status find_token(char **token) {
    const char *given = set("HF_TOKEN") != NULL ? set("HF_TOKEN") : set("HUGGING_FACE_HUB_TOKEN");
    *token = NULL;
    if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return FT_OK;
    if (given == NULL) {
        FT_TRY(read_token_file(token));
        if (*token == NULL) return FT_OK;
    } else {
        *token = ft_calloc(strlen(given) + 1, 1, "a token");
        if (*token == NULL) return FT_NO_MEMORY;
        strcpy(*token, given);
    }
    size_t length = strlen(*token), start = strspn(*token, " \t\r\n");
    while (length > start && isspace((unsigned char)(*token)[length - 1]))
        length--;
    memmove(*token, *token + start, length - start);
    (*token)[length - start] = '\0';
    for (const char *c = *token; *c != '\0'; c++) // a line break would begin another header
        if (!isgraph((unsigned char)*c))
            return ft_fail(FT_INVALID, "the token for the hub", "holds characters that no token has");
    return FT_OK;
}

static void forget(char *secret) {
    if (secret != NULL) explicit_bzero(secret, strlen(secret));
    free(secret);
}

ft_status ft_hub_session_open(const char *repo, const char *revision, bool (*stopped)(void), ft_hub_session *s) {
    *s = (ft_hub_session){.repo = repo, .revision = revision, .stopped = stopped};
    if (is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE"))
        return ft_fail(FT_INVALID, "HF_HUB_OFFLINE", "says that the network must not be used");
    FT_TRY(choose_endpoint(s));
    char *token;
    ft_status status = find_token(&token);
    s->has_token = status == FT_OK && token != NULL && token[0] != '\0';
    if (status == FT_OK) status = ft_http_open(s->endpoint, s->has_token ? token : NULL, stopped, &s->http);
    forget(token);
    return status;
}

void ft_hub_session_close(ft_hub_session *s) {
    ft_http_close(s->http);
    ft_arena_free(&s->arena);
    *s = (ft_hub_session){0};
}

// ---- refusals -----------------------------------------------------------------------------------------------------

static void hint_token(const ft_hub_session *s) {
    if (s->has_token)
        ft_hint("the token that was sent is that of HF_TOKEN, or of the file that `hf auth login` writes");
    else
        ft_hint("no token was sent: set HF_TOKEN, or log in with `hf auth login`");
}

// Who may not, and what is not there, in one sentence each.
static ft_status explain(const ft_hub_session *s, const ft_http_answer *a, const char *what) {
    const char *code = a->error_code;
    if (strcmp(code, "GatedRepo") == 0) {
        ft_fail(FT_INVALID, what, "%s is gated: its conditions must be accepted on its page first", s->repo);
        ft_hint("%s/%s", s->endpoint, s->repo);
        return hint_token(s), FT_INVALID;
    }
    if (strcmp(code, "RevisionNotFound") == 0)
        return ft_fail(FT_INVALID, what, "%s has no revision %s", s->repo, s->revision);
    if (a->status == 401 && s->has_token) {
        ft_fail(FT_INVALID, what, "the hub does not accept the token (401)");
        return hint_token(s), FT_INVALID;
    }
    if (a->status == 401) {
        ft_fail(FT_INVALID, what,
                "the hub shows nobody without a token a model %s (401): there is none, or it is private", s->repo);
        return hint_token(s), FT_INVALID;
    }
    if (a->status == 403) {
        ft_fail(FT_INVALID, what, "the hub denies access to %s (403)", s->repo);
        return hint_token(s), FT_INVALID;
    }
    if (a->status == 404 && (s->commit == NULL || strcmp(code, "RepoNotFound") == 0)) {
        ft_fail(FT_INVALID, what, "the hub has no model %s, or no revision %s of it (404)", s->repo, s->revision);
        if (strchr(s->repo, '/') == NULL) ft_hint("most names have an owner in front: microsoft/deberta-v3-base");
        return FT_INVALID;
    }
    if (a->status == 404) return ft_fail(FT_INVALID, what, "the hub does not have this file (404)");
    return ft_error_code();
}

// ---- trying again -------------------------------------------------------------------------------------------------

static ft_status wait_for(const ft_hub_session *s, double seconds, const char *what) {
    for (double waited = 0; waited < seconds; waited += 0.05) {
        if (s->stopped()) return ft_fail(FT_INTERRUPTED, what, "stopped");
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    }
    return FT_OK;
}

static ft_status pause_before(const ft_hub_session *s, const ft_http_answer *a, const char *what, int tries) {
    double seconds = a->retry_after >= 0 ? a->retry_after : 0.5 * (double)(1 << (tries - 1));
    if (seconds > LONGEST_WAIT) {
        ft_fail(FT_FAILED, what, "the hub asks to come back in %.0f seconds (%d)", seconds, a->status);
        ft_hint("the same command then goes on where this one ends%s",
                s->has_token ? "" : "; with a token (HF_TOKEN) more is allowed");
        return FT_FAILED;
    }
    ft_info("%s (%s); again in %.1f s", ft_error_message(), what, seconds);
    ft_error_clear();
    return wait_for(s, seconds, what);
}

ft_status ft_hub_get(ft_hub_session *s, ft_http_request *request, int64_t (*position)(void *context)) {
    int64_t best = -1;
    for (int tries = 1;; tries++) {
        ft_http_answer answer;
        bool again;
        request->from = position != NULL ? position(request->context) : 0;
        ft_status status = ft_http_get(s->http, request, &answer, &again);
        if (status == FT_OK || status == FT_INTERRUPTED) return status;
        int64_t now = position != NULL ? position(request->context) : 0;
        if (now > best) best = now, tries = now > request->from ? 1 : tries;
        request->range_refused = answer.status == 416;
        if (!again) return answer.status >= 400 && answer.from_hub ? explain(s, &answer, request->what) : status;
        if (tries >= (answer.unreachable ? TRIES_TO_CONNECT : TRIES)) {
            ft_hint("tried %d times; the same command goes on where this one ends", tries);
            return status;
        }
        FT_TRY(pause_before(s, &answer, request->what, tries));
    }
}

// ---- whole answers --------------------------------------------------------------------------------------------------

typedef struct text_sink {
    char *text;
    size_t length, room;
    char *next;
    size_t next_size;
    const char *what;
} text_sink;

static ft_status begin_text(void *context, const ft_http_answer *answer) {
    text_sink *t = context;
    t->length = 0;
    if (t->next != NULL) snprintf(t->next, t->next_size, "%s", answer->next);
    return FT_OK;
}

static ft_status add_text(void *context, const void *data, size_t bytes) {
    text_sink *t = context;
    if (bytes > LARGEST_TEXT - t->length)
        return ft_fail(FT_FAILED, t->what, "the answer is longer than %d bytes", LARGEST_TEXT);
    if (t->length + bytes + 1 > t->room) {
        size_t room = 2 * (t->length + bytes) + 4096;
        char *grown = ft_realloc(t->text, room, 1, "an answer");
        if (grown == NULL) return FT_NO_MEMORY;
        t->text = grown;
        t->room = room;
    }
    memcpy(t->text + t->length, data, bytes);
    t->length += bytes;
    return FT_OK;
}

ft_status ft_hub_get_text(ft_hub_session *s, const char *url, const char *what, char **text, size_t *length, char *next,
                          size_t next_size) {
    text_sink t = {.next = next, .next_size = next_size, .what = what};
    ft_http_request request = {.url = url, .what = what, .begin = begin_text, .body = add_text, .context = &t};
    ft_status status = ft_hub_get(s, &request, NULL);
    if (status == FT_OK) status = add_text(&t, "", 1); // the end
    if (status != FT_OK) {
        free(t.text);
        return status;
    }
    *text = t.text;
    *length = t.length - 1;
    return FT_OK;
}
