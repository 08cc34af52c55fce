#include "engine/ranks/meeting.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/json/json.h"
#include "base/stop.h"
#include "engine/ranks/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char where[] = "ranks";

// What a message is, its first byte; the rest is text. They are part of no file: all ranks are one program, which the
// first agreement makes sure of; the greeting alone is read by another one too.
enum {
    GREETING = 'h',
    FACTS = 'f',
    STATE = 's',
    AGREED = 'y',
    REFUSED = 'n',
    TEXT = 't',
    DESCRIPTOR = 'd',
    WORD = 'w'
};
enum { MESSAGE = 2 * FT_MEETING_TEXT, LOOK_MS = 200, FIRST_PAUSE_US = 2000, LONGEST_PAUSE_US = 100000 };

typedef struct peer {
    int socket; // -1: not there
    long pid;
} peer;

struct ft_meeting {
    ft_rank me;
    peer *peers;   // by rank; of ranks other than 0 there is only that of rank 0
    char *message; // [MESSAGE + 1], the last one that was received
};

static bool leads(const ft_meeting *m) { return m->me.rank == 0; }

// ---- messages -----------------------------------------------------------------------------------------------------

// What this rank works for may be told to stop meanwhile.
static ft_status check_stop(void) {
    const int signal_number = ft_stop_signal();
    return signal_number != 0 ? ft_stop_status(signal_number) : FT_OK;
}

static ft_status gone(int rank, long pid, const char *during) {
    if (pid > 0) return ft_fail(FT_FAILED, where, "rank %d (process %ld) ended while ranks %s", rank, pid, during);
    return ft_fail(FT_FAILED, where, "rank %d ended while ranks %s", rank, during);
}

// The next message of that rank, which is to be one of `kinds`; deadline 0: as long as it lives. Its text is behind the
// first byte.
static ft_status receive(ft_meeting *m, int rank, const char *kinds, double deadline, const char *during,
                         int *descriptor) {
    const peer *from = &m->peers[rank];
    for (;;) {
        struct pollfd ready = {.fd = from->socket, .events = POLLIN};
        long length = 0;
        FT_TRY(check_stop());
        if (poll(&ready, 1, LOOK_MS) > 0)
            FT_TRY(ft_link_receive(from->socket, m->message, MESSAGE + 1, &length, descriptor));
        if (length < 0) return gone(rank, from->pid, during);
        if (length > 0 && strchr(kinds, m->message[0]) != NULL && strlen(m->message) == (size_t)length) return FT_OK;
        if (length > 0) {
            if (descriptor != NULL && *descriptor >= 0) close(*descriptor), *descriptor = -1;
            return ft_fail(FT_FAILED, where, "rank %d does something else while ranks %s", rank, during);
        }
        if (deadline > 0 && ft_now() > deadline)
            return ft_fail(FT_FAILED, where, "rank %d says nothing while ranks %s", rank, during);
    }
}

static ft_status send_text(ft_meeting *m, int rank, char kind, const char *text, int descriptor, const char *during) {
    const size_t length = strlen(text);
    char *line = length < MESSAGE ? malloc(length + 1) : NULL;
    if (line == NULL)
        return length < MESSAGE ? ft_fail_memory(length, "a message to another rank")
                                : ft_fail(FT_FAILED, where, "a message of %zu bytes is too long", length);
    line[0] = kind;
    memcpy(line + 1, text, length);
    ft_status status = ft_link_send(m->peers[rank].socket, line, length + 1, descriptor);
    free(line);
    return status == FT_OK ? FT_OK : gone(rank, m->peers[rank].pid, during);
}

// To every other rank. One that is gone does not keep it from the others; the first one is the error.
static ft_status tell_all(ft_meeting *m, char kind, const char *text, int descriptor, const char *during) {
    ft_status first = FT_OK;
    ft_error error;
    for (int r = 1; r < m->me.size; r++) {
        ft_status status = send_text(m, r, kind, text, descriptor, during);
        if (status != FT_OK && first == FT_OK) first = status, ft_error_save(&error);
    }
    if (first != FT_OK) ft_error_restore(&error);
    return first;
}

// ---- errors as messages -------------------------------------------------------------------------------------------

static ft_status error_text(char **text) {
    bool failed = false;
    json_t *error = json_object(), *hints = json_array();
    ft_json_put(error, "code", json_integer(ft_error_code()), &failed);
    ft_json_put(error, "message", ft_json_text(ft_error_message()), &failed);
    ft_json_put(error, "where", ft_json_text(ft_error_where()), &failed);
    for (int i = 0; i < ft_error_hint_count(); i++)
        ft_json_append(hints, ft_json_text(ft_error_hint(i)), &failed);
    ft_json_put(error, "hints", hints, &failed);
    *text = failed ? NULL : ft_json_line(error);
    json_decref(error);
    return *text != NULL ? FT_OK : ft_fail_memory(0, "an error for other ranks");
}

// The error that another rank sent; its status.
static ft_status take_error(const char *text) {
    json_t *error, *hint;
    size_t i;
    int64_t code;
    const char *message, *place;
    FT_TRY(ft_json_parse(text, strlen(text), where, &error));
    ft_status status = ft_json_int(error, where, "code", FT_FAILED, FT_FAILED, 255, &code);
    if (status == FT_OK) status = ft_json_string(error, where, "message", "", &message);
    if (status == FT_OK) status = ft_json_string(error, where, "where", "", &place);
    if (status == FT_OK) {
        status = ft_fail((ft_status)code, place[0] != '\0' ? place : NULL, "%s", message);
        json_array_foreach(json_object_get(error, "hints"), i, hint) ft_hint("%s", json_string_value(hint));
    }
    json_decref(error);
    return status;
}

// Everybody has the present error, this rank with them.
static ft_status refuse_all(ft_meeting *m, ft_status code, const char *during) {
    ft_error error;
    char *text;
    ft_error_save(&error);
    if (error_text(&text) == FT_OK) (void)tell_all(m, REFUSED, text, -1, during); // whoever is gone cannot be told
    free(text);
    ft_error_restore(&error);
    return code;
}

// What rank 0 decided.
static ft_status hear_verdict(ft_meeting *m, const char *during) {
    FT_TRY(receive(m, 0, (const char[]){AGREED, REFUSED, '\0'}, 0, during, NULL));
    return m->message[0] == AGREED ? FT_OK : take_error(m->message + 1);
}

// ---- meeting ------------------------------------------------------------------------------------------------------

static ft_status take_greeting(ft_meeting *m, int socket, double deadline) {
    peer newcomer = {.socket = socket}, *const first =
                                            &m->peers[0]; // rank 0's own place is free for who is not known yet
    int rank, size;
    *first = newcomer;
    ft_status status = receive(m, 0, (const char[]){GREETING, '\0'}, deadline, "meet", NULL);
    *first = (peer){.socket = -1};
    if (status == FT_OK &&
        (sscanf(m->message + 1, "%d %d %ld", &rank, &size, &newcomer.pid) != 3 || rank < 1 || rank >= m->me.size))
        status = ft_fail(FT_FAILED, where, "another process of this job calls itself '%.40s'", m->message + 1);
    if (status == FT_OK && m->peers[rank].socket >= 0)
        status = ft_fail(FT_FAILED, where, "process %ld and process %ld both are rank %d", m->peers[rank].pid,
                         newcomer.pid, rank);
    if (status == FT_OK && size != m->me.size)
        status = ft_fail(FT_FAILED, where, "rank %d counts %d ranks, rank 0 counts %d", rank, size, m->me.size);
    if (status == FT_OK)
        m->peers[rank] = newcomer;
    else
        close(socket);
    return status;
}

static ft_status too_few(const ft_meeting *m, double seconds) {
    char missing[200] = "";
    size_t used = 0;
    int count = 0;
    for (int r = 1; r < m->me.size; r++) {
        if (m->peers[r].socket >= 0) continue;
        count++;
        if (used < sizeof missing - 16)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d", used > 0 ? ", " : "", r);
    }
    ft_fail(FT_FAILED, where, "%d of %d ranks did not come within %.0f seconds: rank%s %s", count, m->me.size, seconds,
            count > 1 ? "s" : "", missing);
    ft_hint("%s started them all? For a run of one process unset its variables", ft_launcher_name(m->me.launcher));
    return FT_FAILED;
}

static ft_status gather(ft_meeting *m, int listener, double seconds) {
    const double deadline = ft_now() + seconds;
    for (int there = 1; there < m->me.size;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        int socket = -1;
        FT_TRY(check_stop());
        if (poll(&ready, 1, LOOK_MS) > 0) FT_TRY(ft_link_accept(listener, &socket));
        if (socket >= 0) {
            FT_TRY(take_greeting(m, socket, deadline));
            there++;
        } else if (ft_now() > deadline) {
            return too_few(m, seconds);
        }
    }
    return FT_OK;
}

static ft_status lead(ft_meeting *m, const ft_link_name *name, double seconds) {
    int listener;
    FT_TRY(ft_link_listen(name, m->me.size, &listener));
    ft_status status = gather(m, listener, seconds);
    close(listener);
    return status == FT_OK ? tell_all(m, AGREED, "", -1, "meet") : refuse_all(m, status, "meet");
}

static ft_status follow(ft_meeting *m, const ft_link_name *name, double seconds) {
    const double deadline = ft_now() + seconds;
    char greeting[64];
    for (useconds_t pause = FIRST_PAUSE_US; m->peers[0].socket < 0;
         pause = pause * 2 < LONGEST_PAUSE_US ? pause * 2 : LONGEST_PAUSE_US) {
        FT_TRY(check_stop());
        FT_TRY(ft_link_connect(name, &m->peers[0].socket));
        if (m->peers[0].socket >= 0) break;
        if (ft_now() > deadline) {
            ft_fail(FT_FAILED, where, "rank %d waited %.0f seconds for rank 0 of %d", m->me.rank, seconds, m->me.size);
            ft_hint("%s started them all? For a run of one process unset its variables",
                    ft_launcher_name(m->me.launcher));
            return FT_FAILED;
        }
        usleep(pause);
    }
    snprintf(greeting, sizeof greeting, "%d %d %ld", m->me.rank, m->me.size, (long)getpid());
    FT_TRY(send_text(m, 0, GREETING, greeting, -1, "meet"));
    return hear_verdict(m, "meet");
}

ft_status ft_meeting_open(const ft_rank *rank, double seconds, ft_meeting **meeting) {
    ft_link_name name;
    *meeting = NULL;
    if (!ft_rank_on_one_host(rank))
        return ft_fail(FT_INVALID, where,
                       "%s has started %d ranks, %d of them on this host: only those of one host can meet",
                       ft_launcher_name(rank->launcher), rank->size, rank->local_size);
    FT_TRY(ft_link_name_of(rank, &name));
    const int peers = rank->rank == 0 ? rank->size : 1;
    ft_meeting *m = ft_calloc(1, sizeof *m, "a meeting of ranks");
    if (m == NULL) return FT_NO_MEMORY;
    m->me = *rank;
    m->peers = ft_calloc((size_t)peers, sizeof *m->peers, "a meeting of ranks");
    m->message = ft_calloc(MESSAGE + 1, 1, "messages of ranks");
    for (int r = 0; m->peers != NULL && r < peers; r++)
        m->peers[r].socket = -1;
    ft_status status = m->peers == NULL || m->message == NULL ? FT_NO_MEMORY
                       : leads(m)                             ? lead(m, &name, seconds)
                                                              : follow(m, &name, seconds);
    if (status == FT_OK) return *meeting = m, FT_OK;
    ft_meeting_close(m);
    return status;
}

void ft_meeting_close(ft_meeting *m) {
    if (m == NULL) return;
    const int peers = leads(m) ? m->me.size : 1;
    for (int r = 0; m->peers != NULL && r < peers; r++)
        if (m->peers[r].socket >= 0) close(m->peers[r].socket);
    free(m->peers);
    free(m->message);
    free(m);
}

// ---- agreeing -----------------------------------------------------------------------------------------------------

static ft_status facts_text(int count, const ft_fact *facts, char **text) {
    bool failed = false;
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        ft_json_append(list, json_pack("[s, o]", facts[i].name, ft_json_text(facts[i].value)), &failed);
    *text = failed ? NULL : ft_json_line(list);
    json_decref(list);
    return *text != NULL ? FT_OK : ft_fail_memory(0, "what ranks agree on");
}

static ft_status compare(const ft_meeting *m, int rank, const char *text, const json_t *mine) {
    json_t *theirs;
    const long pid = m->peers[rank].pid;
    FT_TRY(ft_json_parse(text, strlen(text), where, &theirs));
    ft_status status = json_array_size(theirs) == json_array_size(mine)
                           ? FT_OK
                           : ft_fail(FT_INVALID, where,
                                     "rank %d (process %ld) is another version of the program than rank 0", rank, pid);
    for (size_t i = 0; status == FT_OK && i < json_array_size(mine); i++) {
        const json_t *a = json_array_get(mine, i), *b = json_array_get(theirs, i);
        const char *name = json_string_value(json_array_get(a, 0)), *value = json_string_value(json_array_get(a, 1));
        const char *other = json_string_value(json_array_get(b, 1));
        if (!json_equal(a, b))
            status = ft_fail(FT_INVALID, where, "rank %d (process %ld) has another %s than rank 0: %.300s, not %.300s",
                             rank, pid, name, other != NULL ? other : "?", value);
    }
    json_decref(theirs);
    return status;
}

// Rank 0 hears all of them, also when one was enough: what stands in a socket that is closed unread takes the answer
// with it.
typedef ft_status take_message(ft_meeting *m, int rank, const void *context);

static ft_status hear_all(ft_meeting *m, ft_status first, char kind, const char *during, take_message *take,
                          const void *context) {
    ft_error error;
    ft_error_save(&error);
    for (int r = 1; r < m->me.size; r++) {
        ft_status status = receive(m, r, (const char[]){kind, '\0'}, 0, during, NULL);
        if (status == FT_OK) status = take(m, r, context);
        if (status != FT_OK && first == FT_OK) first = status, ft_error_save(&error);
    }
    ft_error_restore(&error);
    return first;
}

static ft_status take_facts(ft_meeting *m, int rank, const void *mine) {
    return compare(m, rank, m->message + 1, mine);
}

static ft_status judge(ft_meeting *m, const char *text, const char *during) {
    json_t *mine;
    FT_TRY(ft_json_parse(text, strlen(text), where, &mine));
    ft_status status = hear_all(m, FT_OK, FACTS, during, take_facts, mine);
    json_decref(mine);
    return status;
}

ft_status ft_meeting_agree(ft_meeting *m, int count, const ft_fact *facts) {
    static const char during[] = "compared what they are about to do";
    char *text;
    FT_TRY(facts_text(count, facts, &text));
    ft_status status = leads(m) ? judge(m, text, during) : send_text(m, 0, FACTS, text, -1, during);
    free(text);
    if (!leads(m)) return status == FT_OK ? hear_verdict(m, during) : status;
    return status == FT_OK ? tell_all(m, AGREED, "", -1, during) : refuse_all(m, status, during);
}

// Whose error the present one is stands in front of it.
static void name_rank(int rank, long pid) {
    ft_error error;
    ft_error_save(&error);
    ft_fail(error.code, error.where[0] != '\0' ? error.where : NULL, "rank %d (process %ld): %s", rank, pid,
            error.message);
    for (int i = 0; i < error.hints; i++)
        ft_hint("%s", error.hint[i]);
}

static ft_status take_state(ft_meeting *m, int rank, const void *context) {
    if (m->message[1] == '\0') return FT_OK;
    ft_status status = take_error(m->message + 1);
    name_rank(rank, m->peers[rank].pid);
    return status;
}

ft_status ft_meeting_all(ft_meeting *m, ft_status status) {
    static const char during[] = "began";
    if (!leads(m)) {
        char *text = NULL;
        if (status != FT_OK) FT_TRY(error_text(&text));
        ft_status sent = send_text(m, 0, STATE, text != NULL ? text : "", -1, during);
        free(text);
        return sent == FT_OK ? hear_verdict(m, during) : sent;
    }
    if (status != FT_OK) name_rank(0, (long)getpid());
    status = hear_all(m, status, STATE, during, take_state, NULL);
    return status == FT_OK ? tell_all(m, AGREED, "", -1, during) : refuse_all(m, status, during);
}

ft_status ft_meeting_spread(ft_meeting *m, char *text, size_t size) {
    static const char during[] = "were told where to write";
    if (leads(m)) return tell_all(m, TEXT, text, -1, during);
    FT_TRY(receive(m, 0, (const char[]){TEXT, '\0'}, 0, during, NULL));
    if (strlen(m->message + 1) >= size)
        return ft_fail(FT_FAILED, where, "a text of %zu bytes is too long", strlen(m->message + 1));
    strcpy(text, m->message + 1);
    return FT_OK;
}

ft_status ft_meeting_hand_out(ft_meeting *m, int *descriptor) {
    static const char during[] = "were given their memory";
    if (leads(m)) return tell_all(m, DESCRIPTOR, "", *descriptor, during);
    *descriptor = -1;
    FT_TRY(receive(m, 0, (const char[]){DESCRIPTOR, '\0'}, 0, during, descriptor));
    return *descriptor >= 0 ? FT_OK : ft_fail(FT_FAILED, where, "rank 0 handed nothing out; too many open files?");
}

// Also where all were told to stop.
static bool hear_word(ft_meeting *m, double seconds) {
    const double deadline = ft_now() + seconds;
    struct pollfd ready = {.fd = m->peers[0].socket, .events = POLLIN};
    for (long length = 0; ft_now() < deadline;) {
        if (poll(&ready, 1, LOOK_MS) > 0 && ft_link_receive(ready.fd, m->message, MESSAGE + 1, &length, NULL) != FT_OK)
            return false;
        if (length != 0) return length > 0 && m->message[0] == WORD;
    }
    return false;
}

bool ft_meeting_word(ft_meeting *m, double seconds) {
    ft_error present;
    ft_error_save(&present);
    const bool told = !leads(m) ? hear_word(m, seconds) : tell_all(m, WORD, "", -1, "ended") == FT_OK;
    ft_error_restore(&present);
    return told || leads(m);
}
