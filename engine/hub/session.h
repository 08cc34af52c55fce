// session.h - who is asked, as whom, and how often: the settings that huggingface_hub takes from the environment, and
// GET with its rules for trying again.
//
// HF_ENDPOINT (https://huggingface.co); HF_TOKEN, HUGGING_FACE_HUB_TOKEN, else the file HF_TOKEN_PATH, else
// $HF_HOME/token; HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_OFFLINE.
//
// Trying again: 429 after the time that Retry-After asks for, other passing refusals (408, 5xx) and broken connections
// after 0.5, 1, 2, 4, 8 seconds, a hub that cannot be reached at all twice; whatever brought new bytes starts counting
// anew.
#ifndef FT_HUB_SESSION_H
#define FT_HUB_SESSION_H

#include "base/arena.h"
#include "engine/hub/http.h"

typedef struct ft_hub_session {
    ft_http *http;
    const char *endpoint;                 // without a slash at its end
    const char *repo, *revision, *commit; // commit: NULL until known
    bool has_token;
    bool (*stopped)(void);
    ft_arena arena;
} ft_hub_session;

ft_status ft_hub_session_open(const char *repo, const char *revision, bool (*stopped)(void), ft_hub_session *session);
void ft_hub_session_close(ft_hub_session *session); // {0} is fine

// ft_http_get until it succeeds or there is no hope. `position` (or NULL for "always from the start") says how many
// bytes there are by now; the request begins behind them. The error is a sentence for people.
ft_status ft_hub_get(ft_hub_session *session, ft_http_request *request, int64_t (*position)(void *context));
// A whole answer, NUL-terminated, on the heap. next: the address of the next page, "" when there is none; may be NULL.
ft_status ft_hub_get_text(ft_hub_session *session, const char *url, const char *what, char **text, size_t *length,
                          char *next, size_t next_size);

#endif
