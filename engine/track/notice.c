#include "engine/track/notice.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "engine/track/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

json_t *ft_notice(const char *event, const char *text) {
    char host[65] = "";
    bool failed = false;
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    json_t *notice = json_object();
    ft_json_put(notice, "event", ft_json_text(event), &failed);
    ft_json_put(notice, "text", ft_json_text(text), &failed);
    ft_json_put(notice, "host", ft_json_text(host), &failed);
    ft_json_put(notice, "time", json_integer((json_int_t)time(NULL)), &failed);
    if (!failed) return notice;
    json_decref(notice);
    ft_fail_memory(0, "a notice");
    return NULL;
}

// ---- a run --------------------------------------------------------------------------------------------------------

static const char *event_of(ft_status outcome) {
    switch (outcome) {
    case FT_OK: return "run.finished";
    case FT_INTERRUPTED:
    case FT_TERMINATED: return "run.stopped";
    case FT_NO_MEMORY: return "run.oom";
    case FT_DIVERGED: return "run.diverged";
    default: return "run.failed";
    }
}

// "reviews-001 has finished after 1200 steps, best accuracy 0.931"
static char *run_text(const char *directory, ft_status outcome, const char *error, const json_t *run, ft_arena *arena) {
    const char *slash = strrchr(directory, '/'), *name = slash != NULL && slash[1] != '\0' ? slash + 1 : directory;
    const long long steps = (long long)json_integer_value(json_object_get(run, "steps"));
    const json_t *best = json_object_get(run, "best"), *value = json_object_get(best, "value");
    const char *metric = json_string_value(json_object_get(best, "metric"));
    char figure[120] = "";
    if (metric != NULL && json_is_number(value))
        snprintf(figure, sizeof figure, ", best %.60s %.6g", metric, json_number_value(value));
    if (outcome == FT_OK) return ft_arena_format(arena, "%s has finished after %lld steps%s", name, steps, figure);
    return ft_arena_format(arena, "%s: %s%s", name, error[0] != '\0' ? error : event_of(outcome), figure);
}

static void share(const json_t *from, const char *key, json_t *into, bool *failed) {
    json_t *value = json_object_get(from, key);
    if (value != NULL) ft_json_put(into, key, json_incref(value), failed);
}

json_t *ft_notice_of_run(const char *directory, ft_status outcome, const char *error) {
    ft_arena arena = {0};
    json_t *run = NULL, *notice = NULL;
    bool failed = false;
    const char *path = ft_path_join(&arena, directory, "run.json");
    if (path != NULL && directory[0] != '\0' && ft_path_exists(path) && ft_json_load(path, &run) != FT_OK)
        ft_error_clear(); // told without
    const char *text = path != NULL ? run_text(directory, outcome, error, run, &arena) : NULL;
    if (text != NULL) notice = ft_notice(event_of(outcome), text);
    if (notice != NULL) {
        if (directory[0] != '\0') ft_json_put(notice, "run", ft_json_text(directory), &failed);
        if (error[0] != '\0') ft_json_put(notice, "error", ft_json_text(error), &failed);
        static const char *const keys[] = {"status", "steps", "epochs", "best", "metrics", "seconds"};
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            share(run, keys[i], notice, &failed);
    }
    json_decref(run);
    ft_arena_free(&arena);
    if (notice == NULL || !failed) return notice;
    json_decref(notice);
    ft_fail_memory(0, "a notice");
    return NULL;
}

// ---- what is posted -----------------------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcasecmp(text + length - tail, end) == 0;
}

ft_notice_form ft_notice_form_of(const char *url) {
    char host[200];
    ft_web_host(url, host, sizeof host);
    host[strcspn(host, ":")] = '\0'; // the port
    if (strcasecmp(host, "hooks.slack.com") == 0 || strncasecmp(host, "mattermost.", 11) == 0) return FT_NOTICE_SLACK;
    if (strcasecmp(host, "discord.com") == 0 || strcasecmp(host, "discordapp.com") == 0) return FT_NOTICE_DISCORD;
    if (ends_with(host, ".webhook.office.com") || ends_with(host, ".logic.azure.com") ||
        ends_with(host, ".powerplatform.com"))
        return FT_NOTICE_TEAMS;
    if (strcasecmp(host, "ntfy.sh") == 0 || strncasecmp(host, "ntfy.", 5) == 0) return FT_NOTICE_NTFY;
    return FT_NOTICE_JSON;
}

enum { DISCORD_MOST = 2000 };

static char *line_of(json_t *object) {
    char *line = ft_json_line(object);
    json_decref(object);
    return line;
}

char *ft_notice_body(const json_t *notice, ft_notice_form form) {
    const char *text = json_string_value(json_object_get(notice, "text"));
    char cut[DISCORD_MOST + 1];
    if (text == NULL) text = "";
    switch (form) {
    case FT_NOTICE_SLACK: return line_of(json_pack("{s:s}", "text", text));
    case FT_NOTICE_DISCORD:
        snprintf(cut, sizeof cut, "%s", text);
        cut[ft_utf8_valid_prefix(cut, strlen(cut))] = '\0'; // not within a character
        return line_of(json_pack("{s:s}", "content", cut));
    case FT_NOTICE_TEAMS:
        return line_of(json_pack("{s:s, s:[{s:s, s:{s:s, s:s, s:[{s:s, s:s, s:b}]}}]}", "type", "message",
                                 "attachments", "contentType", "application/vnd.microsoft.card.adaptive", "content",
                                 "type", "AdaptiveCard", "version", "1.4", "body", "type", "TextBlock", "text", text,
                                 "wrap", 1));
    case FT_NOTICE_NTFY: {
        char *copy = ft_calloc(strlen(text) + 1, 1, "a notice");
        if (copy != NULL) strcpy(copy, text);
        return copy;
    }
    default: return ft_json_line(notice);
    }
}
