#include "engine/track/follow.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/track/web.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static const double QUICK = 1, STEADY = 5,
                    SLOWEST = 60; // seconds between two tellings: at first, then, where it does not answer
enum { LAST_TRIES = 3 };
static const double PATIENCE = 20, LAST_PATIENCE = 5; // seconds for a request; when somebody waits for the end

// True when standard input has ended; after `seconds` at most.
static bool ended_within(double seconds) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    if (poll(&input, 1, (int)(seconds * 1000)) <= 0) return false;
    return read(STDIN_FILENO, &byte, 1) <= 0;
}

typedef struct tracker {
    const ft_follow *follow;
    const ft_followed *what;
    ft_mlflow *client;
    char *experiment; // NULL: not asked for yet
    bool warned;
} tracker;

static ft_status tell(tracker *t, bool last) {
    if (t->experiment == NULL) FT_TRY(ft_mlflow_experiment(t->client, t->follow->experiment, &t->experiment));
    return t->what->tell(t->what->context, t->client, t->experiment, last);
}

static void warn_once(tracker *t) {
    if (!t->warned) ft_warn("MLflow is not told now: %s (%s); it is told later", ft_error_message(), ft_error_where());
    t->warned = true;
    ft_error_clear();
}

static void while_it_lives(tracker *t) {
    double pause = QUICK, next = 0;
    for (bool over = false; !over;) {
        const double now = ft_now();
        if (t->what->look != NULL) t->what->look(t->what->context);
        if (now >= next && tell(t, false) == FT_OK) {
            if (t->warned) ft_info("MLflow answers again");
            t->warned = false;
            pause = fmin(pause + QUICK, STEADY);
            next = ft_now() + pause;
        } else if (now >= next) {
            warn_once(t);
            pause = fmin(fmax(2 * pause, STEADY), SLOWEST);
            next = ft_now() + pause;
        }
        over = ended_within(1);
    }
    if (t->what->look != NULL) t->what->look(t->what->context);
}

static ft_status at_the_end(tracker *t) {
    ft_status status = FT_OK;
    ft_mlflow_patience(t->client, t->follow->live ? LAST_PATIENCE : PATIENCE);
    for (int tries = 0; tries < LAST_TRIES; tries++) {
        if (tries > 0) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        status = tell(t, true);
        if (status == FT_OK || status == FT_INVALID || status == FT_NO_MEMORY) return status;
    }
    return status;
}

ft_status ft_follow_all(const ft_follow *follow, const ft_followed *what) {
    tracker t = {.follow = follow, .what = what};
    FT_TRY(ft_mlflow_open(follow->uri, &t.client));
    ft_mlflow_patience(t.client, PATIENCE);
    if (follow->live)
        while_it_lives(&t);
    else if (what->look != NULL)
        what->look(what->context);
    const ft_status status = at_the_end(&t);
    free(t.experiment);
    ft_mlflow_close(t.client);
    return status;
}

static bool is_server(const char *uri) { return ft_web_is_address(uri) && strchr(uri, '@') == NULL; }

static const char *variable_uri(void) {
    const char *variable = getenv("MLFLOW_TRACKING_URI");
    return variable != NULL && variable[0] != '\0' ? variable : NULL;
}

const char *ft_follow_uri(const ft_config *config) {
    const char *given = config->track.mlflow, *uri = given[0] != '\0' ? given : variable_uri();
    return uri != NULL && strcmp(given, "none") != 0 && is_server(uri) ? uri : NULL;
}

ft_status ft_follow_check(const ft_config *config) {
    const char *given = config->track.mlflow, *variable = variable_uri();
    if (strcmp(given, "none") == 0) return FT_OK;
    if (given[0] != '\0' && !is_server(given)) {
        ft_fail(FT_INVALID, "track.mlflow", "takes the address of a server as http://127.0.0.1:5000, without a name or password in it");
        ft_hint("mlflow server --backend-store-uri sqlite:///mlflow.db --artifacts-destination ./mlartifacts");
        ft_hint("who this is: MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN");
        return FT_INVALID;
    }
    if (given[0] == '\0' && variable != NULL && !is_server(variable))
        ft_warn("MLFLOW_TRACKING_URI is no address of a server (http or https, no password in it): MLflow is told nothing; track.mlflow = none says so");
    return FT_OK;
}

const char *ft_follow_experiment(const ft_config *config) {
    const char *variable = getenv("MLFLOW_EXPERIMENT_NAME");
    if (config->track.experiment[0] != '\0') return config->track.experiment;
    return variable != NULL && variable[0] != '\0' ? variable : "Default";
}

ft_status ft_follow_load(const char *path, json_t **record) {
    if (ft_path_exists(path)) return ft_json_load(path, record);
    *record = json_pack("{s:i}", "format_version", 1);
    return *record != NULL ? FT_OK : ft_fail_memory(0, "a record");
}

ft_status ft_follow_lock(const ft_follow *follow, const char *directory, int *lock) {
    ft_arena arena = {0};
    const char *path = ft_path_join(&arena, directory, "mlflow.lock");
    *lock = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    const int error = errno;
    ft_arena_free(&arena);
    if (path == NULL) return FT_NO_MEMORY;
    if (*lock < 0) return ft_fail_errno(FT_FAILED, error, directory, "cannot write mlflow.lock there");
    while (flock(*lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return FT_OK; // some file systems have none
        if (follow->live && !ended_within(1)) continue;
        close(*lock);
        *lock = -1;
        return follow->live ? FT_OK
                            : ft_fail(FT_FAILED, directory, "another process tells MLflow of it at this moment");
    }
    return FT_OK;
}
