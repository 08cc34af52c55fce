// pack.c - a worker that runs several trials at the same time. The first thread hears all messages and starts a thread for every trial, in a
// context of its own; that sends what its trial has to say by itself.
#include "hpo/workers/internal.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/stop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ft_mail {
    pthread_mutex_t lock;
    pthread_cond_t come;
    bool turn, alone;
    bool stop, keep;
};

// A socket and what runs at its end.
typedef struct seat {
    ft_worker worker;
    ft_mail mail;
    ft_context context; // of the trial
    pthread_t thread;
    bool begun;         // to be joined, and the context freed
    json_t *order;      // its "run"
    ft_worker_function run;
    void *given;
} seat;

// ---- what one thread heard for another ------------------------------------------------------------------------------------

bool ft_mail_take_turn(ft_mail *m, double seconds, bool *alone) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&m->lock);
    for (int late = 0; !m->turn && !m->stop && late == 0;) late = pthread_cond_timedwait(&m->come, &m->lock, &until);
    const bool turn = m->turn;
    *alone = m->alone;
    m->turn = false;
    pthread_mutex_unlock(&m->lock);
    return turn;
}

bool ft_mail_stops(ft_mail *m) {
    pthread_mutex_lock(&m->lock);
    const bool stops = m->stop;
    pthread_mutex_unlock(&m->lock);
    return stops;
}

bool ft_mail_keeps(ft_mail *m) {
    pthread_mutex_lock(&m->lock);
    const bool keeps = !m->stop || m->keep;
    pthread_mutex_unlock(&m->lock);
    return keeps;
}

static void put_turn(ft_mail *m, bool alone) {
    pthread_mutex_lock(&m->lock);
    m->turn = true;
    m->alone = alone;
    pthread_cond_signal(&m->come);
    pthread_mutex_unlock(&m->lock);
}

static void put_stop(seat *s, bool keep, int signal_number) {
    ft_mail *m = &s->mail;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    m->keep = keep;
    pthread_cond_signal(&m->come);
    pthread_mutex_unlock(&m->lock);
    if (s->begun) (void)ft_stop_ask(&s->context, signal_number);
}

// ---- a trial --------------------------------------------------------------------------------------------------------------

static void *run_in_seat(void *argument) {
    seat *s = argument;
    ft_context_enter(&s->context);
    ft_worker_run_trial(&s->worker, s->run, s->given, s->order);
    return NULL;
}

// The one before has told its end, and is as good as gone.
static void clear(seat *s) {
    if (!s->begun) return;
    pthread_join(s->thread, NULL);
    ft_context_free(&s->context);
    json_decref(s->order);
    s->order = NULL;
    s->begun = false;
}

static ft_status begin(seat *s, json_t *order) {
    clear(s);
    ft_context_init(&s->context);
    atomic_store(&s->context.level, (int)ft_log_get_level());
    s->mail.turn = s->mail.alone = s->mail.stop = s->mail.keep = false; // nobody else is there now
    s->order = json_incref(order);
    s->begun = true;
    const int error = pthread_create(&s->thread, NULL, run_in_seat, s);
    if (error == 0) return FT_OK;
    s->begun = false;
    json_decref(s->order);
    ft_context_free(&s->context);
    return ft_fail_errno(FT_FAILED, error, "worker", "cannot start a thread");
}

// ---- messages ---------------------------------------------------------------------------------------------------------------

static ft_status hear(seat *s, json_t *message) {
    const char *what = json_string_value(json_object_get(message, "do"));
    if (what == NULL) return FT_OK;
    if (strcmp(what, "run") == 0) return begin(s, message);
    if (strcmp(what, "enter") == 0) put_turn(&s->mail, json_is_true(json_object_get(message, "alone")));
    if (strcmp(what, "stop") == 0) put_stop(s, json_is_true(json_object_get(message, "keep")), SIGTERM);
    return FT_OK;
}

static ft_status hear_all(seat *s) {
    while (!s->worker.channel.ended) {
        json_t *message;
        FT_TRY(ft_channel_receive(&s->worker.channel, 0, &message));
        if (message == NULL) return FT_OK;
        const ft_status status = hear(s, message);
        json_decref(message);
        FT_TRY(status);
    }
    return FT_OK;
}

// false: all sockets are closed.
static bool wait_for_messages(int count, seat *seats, struct pollfd *ready) {
    int open = 0;
    for (int i = 0; i < count; i++) {
        const bool ended = seats[i].worker.channel.ended;
        ready[i] = (struct pollfd){.fd = ended ? -1 : seats[i].worker.channel.socket, .events = POLLIN};
        open += !ended;
    }
    if (open > 0) poll(ready, (nfds_t)count, 250); // a signal may come to another thread
    return open > 0;
}

static ft_status serve(int count, seat *seats, struct pollfd *ready) {
    ft_stop_begin();
    while (wait_for_messages(count, seats, ready)) {
        const int signal_number = ft_stop_signal();
        for (int i = 0; i < count; i++) {
            FT_TRY(hear_all(&seats[i]));
            if (signal_number != 0 && !ft_mail_stops(&seats[i].mail)) put_stop(&seats[i], true, signal_number);
        }
    }
    return FT_OK;
}

ft_status ft_worker_serve_pack(int count, const int *sockets, const char *study, ft_worker_function run, void *context) {
    seat *seats = ft_calloc((size_t)count, sizeof *seats, "trials of a worker");
    struct pollfd *ready = ft_calloc((size_t)count, sizeof *ready, "trials of a worker");
    ft_status status = seats != NULL && ready != NULL ? FT_OK : FT_NO_MEMORY;
    for (int i = 0; status == FT_OK && i < count; i++) {
        seats[i] = (seat){.worker = {.channel = {.socket = sockets[i]}, .study = study, .mail = &seats[i].mail}, .run = run, .given = context};
        pthread_mutex_init(&seats[i].mail.lock, NULL);
        pthread_cond_init(&seats[i].mail.come, NULL);
    }
    if (status == FT_OK) status = serve(count, seats, ready);
    for (int i = 0; seats != NULL && ready != NULL && i < count; i++) {
        if (seats[i].begun) put_stop(&seats[i], true, SIGTERM); // nobody is there to tell
        clear(&seats[i]);
        ft_channel_close(&seats[i].worker.channel);
    }
    free(seats);
    free(ready);
    return status;
}
