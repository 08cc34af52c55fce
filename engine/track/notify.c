#include "engine/track/notify.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/track/command.h"
#include "engine/track/notice.h"
#include "engine/track/web.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAITING = 16, TRIES = 3, LONGEST_URL = 4096 };

struct ft_notifier {
    const char *command, *url; // "": none
    double timeout;
    ft_context *context; // of whoever opened it
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    json_t *queue[WAITING]; // the rest is behind `lock`
    int count;
    bool closing;
    ft_arena arena;
};

// ---- one notice ---------------------------------------------------------------------------------------------------

static ft_status run_command(const ft_notifier *n, const json_t *notice) {
    ft_arena arena = {0};
    char *line = ft_json_line(notice);
    const char *variables[3] = {
        ft_arena_format(&arena, "FTENGINE_EVENT=%s", json_string_value(json_object_get(notice, "event"))),
        ft_arena_format(&arena, "FTENGINE_TEXT=%s", json_string_value(json_object_get(notice, "text"))), NULL};
    const char *input = line != NULL ? ft_arena_format(&arena, "%s\n", line) : NULL;
    const bool made = input != NULL && variables[0] != NULL && variables[1] != NULL;
    const ft_status status = made ? ft_command_hand(n->command, input, variables, n->timeout) : FT_NO_MEMORY;
    free(line);
    ft_arena_free(&arena);
    return status;
}

static ft_status post_once(const ft_notifier *n, ft_web *web, const char *body, const char *const *headers,
                           bool *again) {
    ft_web_answer answer;
    char host[200];
    const ft_web_request request = {.method = "POST",
                                    .url = n->url,
                                    .headers = headers,
                                    .body = body,
                                    .length = strlen(body),
                                    .timeout = n->timeout};
    ft_status status = ft_web_send(web, &request, &answer);
    *again = status != FT_OK || answer.status == 408 || answer.status == 429 || answer.status >= 500;
    if (status == FT_OK && (answer.status < 200 || answer.status >= 300))
        status = ft_fail(FT_FAILED, ft_web_host(n->url, host, sizeof host), "it answered %d", answer.status);
    free(answer.text);
    return status;
}

static ft_status post(const ft_notifier *n, const json_t *notice) {
    static const char *const as_json[] = {"Content-Type: application/json", NULL};
    static const char *const as_text[] = {"Content-Type: text/plain; charset=utf-8", "Title: ftengine", NULL};
    static const char *const as_trouble[] = {"Content-Type: text/plain; charset=utf-8", "Title: ftengine",
                                             "Priority: high", "Tags: warning", NULL};
    const char *event = json_string_value(json_object_get(notice, "event"));
    const bool well = strstr(event, ".finished") != NULL;
    const ft_notice_form form = ft_notice_form_of(n->url);
    ft_web *web;
    FT_TRY(ft_web_open(false, NULL, &web));
    char *body = ft_notice_body(notice, form);
    ft_status status = body != NULL ? FT_OK : FT_NO_MEMORY;
    bool again = body != NULL;
    for (int tries = 1; again && tries <= TRIES; tries++) {
        if (tries > 1) nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
        status = post_once(n, web, body, form != FT_NOTICE_NTFY ? as_json : well ? as_text : as_trouble, &again);
        again = again && status != FT_OK;
    }
    free(body);
    ft_web_close(web);
    return status;
}

static void warn_of(const char *what, const json_t *notice) {
    ft_error error;
    ft_error_save(&error);
    ft_warn("%s was not told of %s: %s (%s)", what, json_string_value(json_object_get(notice, "event")), error.message,
            error.where);
    ft_error_clear();
}

static void tell(const ft_notifier *n, const json_t *notice) {
    if (n->command[0] != '\0' && run_command(n, notice) != FT_OK) warn_of("notify.command", notice);
    if (n->url[0] != '\0' && post(n, notice) != FT_OK) warn_of("notify.url", notice);
}

// ---- the thread ---------------------------------------------------------------------------------------------------

static void *work(void *context) {
    ft_notifier *n = context;
    ft_context_enter(n->context);
    pthread_mutex_lock(&n->lock);
    while (n->count > 0 || !n->closing) {
        if (n->count == 0) {
            pthread_cond_wait(&n->changed, &n->lock);
            continue;
        }
        json_t *notice = n->queue[0];
        memmove(n->queue, n->queue + 1, (size_t)--n->count * sizeof n->queue[0]);
        pthread_mutex_unlock(&n->lock);
        tell(n, notice);
        json_decref(notice);
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

void ft_notify(ft_notifier *n, json_t *notice) {
    if (notice == NULL) {
        ft_warn("somebody should have been told something: %s", ft_error_message());
        ft_error_clear();
        return;
    }
    bool full = false, lacks_thread = false;
    pthread_mutex_lock(&n->lock);
    if (!n->started) n->started = pthread_create(&n->thread, NULL, work, n) == 0;
    lacks_thread = !n->started;
    full = n->count == WAITING;
    if (!full && !lacks_thread) n->queue[n->count++] = notice;
    pthread_cond_signal(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (!full && !lacks_thread) return;
    ft_warn("nobody is told of %s: %s", json_string_value(json_object_get(notice, "event")),
            full ? "too much waits to be told already" : "no thread can be started");
    json_decref(notice);
}

// ---- opened and closed --------------------------------------------------------------------------------------------

static ft_status read_file(const char *name, ft_arena *arena, const char **url) {
    char *path = ft_path_absolute(arena, NULL, name), *text;
    size_t length;
    if (path == NULL) return ft_error_code();
    FT_TRY(ft_read_file(path, LONGEST_URL, &text, &length));
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    *url = ft_arena_strndup(arena, text, length);
    explicit_bzero(text, length);
    free(text);
    return *url != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status find_url(const char *given, ft_arena *arena, const char **url) {
    const char *variable = getenv("FTENGINE_NOTIFY_URL"),
               *what = given[0] != '\0' ? "notify.url" : "FTENGINE_NOTIFY_URL";
    *url = given[0] != '\0' ? given : variable != NULL ? variable : "";
    if (strcmp(*url, "none") == 0) *url = "";
    if (strncmp(*url, "file:", 5) == 0)
        FT_TRY(read_file(*url + 5, arena, url));
    else
        *url = ft_arena_strdup(arena, *url);
    if (*url == NULL) return FT_NO_MEMORY;
    if ((*url)[0] == '\0' || ft_web_is_address(*url)) return FT_OK;
    return ft_fail(FT_INVALID, what,
                   "takes an address as https://ntfy.sh/a-name-of-yours, or file:PATH of a file that holds one");
}

static ft_status fill(const ft_config *config, ft_notifier *n) {
    n->timeout = config->notify.timeout;
    n->context = ft_context_now();
    n->command = ft_arena_strdup(&n->arena, config->notify.command);
    if (n->command == NULL) return FT_NO_MEMORY;
    return find_url(config->notify.url, &n->arena, &n->url);
}

ft_status ft_notifier_open(const ft_config *config, ft_notifier **notifier) {
    ft_notifier *n = *notifier = ft_calloc(1, sizeof *n, "whom to tell");
    if (n == NULL) return FT_NO_MEMORY;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    const ft_status status = fill(config, n);
    if (status == FT_OK && (n->command[0] != '\0' || n->url[0] != '\0')) return FT_OK;
    ft_notifier_close(n);
    *notifier = NULL;
    return status;
}

void ft_notifier_close(ft_notifier *n) {
    if (n == NULL) return;
    pthread_mutex_lock(&n->lock);
    n->closing = true;
    pthread_cond_signal(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (n->started) pthread_join(n->thread, NULL);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    ft_arena_free(&n->arena);
    free(n);
}

// What is refused before it began has somebody who sees it.
void ft_notify_run(ft_notifier *n, const char *directory, ft_status outcome) {
    ft_error error;
    if (n == NULL) return;
    ft_error_save(&error);
    if (directory != NULL || outcome != FT_INVALID)
        ft_notify(n,
                  ft_notice_of_run(directory != NULL ? directory : "", outcome, outcome == FT_OK ? "" : error.message));
    ft_notifier_close(n);
    ft_error_restore(&error);
}
