#include "kernels/collectives/mpi/messages.h"

#include "base/arena.h"
#include "base/clock.h"
#include "kernels/collectives/mpi/library.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char where[] = "MPI";

// A wait asks often, then offers its core, then sleeps between two questions; every so often it looks at the others.
enum { QUESTIONS_AWAKE = 200, QUESTIONS_YIELDING = 2000, SLEEP_NS = 50000, QUESTIONS_PER_LOOK = 64 };
static const double SECONDS_TO_TELL = 2;

int ft_mpi_rank(const ft_mpi *mpi) { return mpi->rank; }
int ft_mpi_ranks(const ft_mpi *mpi) { return mpi->ranks; }
const char *ft_mpi_library(const ft_mpi *mpi) { return mpi->table->library; }

ft_status ft_mpi_check(const ft_mpi *mpi, int code, const char *what) {
    char text[512];
    if (code == 0) return FT_OK;
    mpi->table->text(code, text, sizeof text);
    return ft_fail(FT_FAILED, where, "%s: %s", what, text);
}

// ---- what is said aside

static ft_status take_message(ft_mpi *mpi, int from, int bytes) {
    ft_mpi_message m;
    ft_mpi_request request;
    int done = 0;
    if (bytes != (int)sizeof m)
        return ft_fail(FT_FAILED, where, "rank %d says %d bytes that nobody knows", from, bytes);
    FT_TRY(ft_mpi_check(mpi, mpi->table->receive(FT_MPI_ASIDE, &m, bytes, from, &request), "receive"));
    while (!done) // it is on its way
        FT_TRY(ft_mpi_check(mpi, mpi->table->test(&request, &done), "receive"));
    if (m.kind == FT_MPI_WORD) mpi->word = true;
    if (m.kind != FT_MPI_FAILURE || mpi->ended) return FT_OK;
    mpi->ended = true;
    mpi->error = m.error;
    if (mpi->near != NULL) ft_group_abort(mpi->near, &m.error); // who waits for memory hears it, too
    return FT_OK;
}

static ft_status hear(ft_mpi *mpi) {
    for (int from, bytes;;) {
        FT_TRY(ft_mpi_check(mpi, mpi->table->probe(&from, &bytes), "probe"));
        if (from < 0) return FT_OK;
        FT_TRY(take_message(mpi, from, bytes));
    }
}

ft_status ft_mpi_look(ft_mpi *mpi) {
    if (!mpi->ended) FT_TRY(hear(mpi));
    if (mpi->ended) return ft_error_restore(&mpi->error), mpi->error.code;
    return mpi->near != NULL ? ft_group_look(mpi->near) : FT_OK;
}

// To all the others, as far as they listen: who is gone does not, and who computes will.
static void tell_all(ft_mpi *mpi, const ft_mpi_message *m) {
    ft_mpi_request request[FT_GROUP_RANKS];
    int open[FT_GROUP_RANKS] = {0}, left = 0;
    const double deadline = ft_now() + SECONDS_TO_TELL;
    for (int r = 0; r < mpi->ranks; r++) {
        if (r == mpi->rank || mpi->table->send(FT_MPI_ASIDE, m, (int)sizeof *m, r, &request[r]) != 0) continue;
        open[r] = 1;
        left++;
    }
    while (left > 0 && ft_now() < deadline)
        for (int r = 0; r < mpi->ranks; r++) {
            int done = 1;
            if (!open[r]) continue;
            if (mpi->table->test(&request[r], &done) != 0 || done) open[r] = 0, left--;
        }
}

void ft_mpi_abort(ft_mpi *mpi, const ft_error *error) {
    if (mpi->ended) return;
    mpi->ended = true;
    mpi->error = *error;
    mpi->failure = (ft_mpi_message){FT_MPI_FAILURE, *error};
    tell_all(mpi, &mpi->failure);
}

bool ft_mpi_word(ft_mpi *mpi, double seconds) {
    ft_error present;
    const double deadline = ft_now() + seconds;
    ft_error_save(&present);
    if (mpi->rank == 0) {
        mpi->last.kind = FT_MPI_WORD;
        tell_all(mpi, &mpi->last);
    }
    while (mpi->rank > 0 && !mpi->word && ft_now() < deadline && hear(mpi) == FT_OK)
        usleep(1000);
    ft_error_restore(&present);
    return mpi->rank == 0 || mpi->word;
}

// ---- operations

ft_status ft_mpi_wait(ft_mpi *mpi, ft_mpi_request *request, const char *what) {
    int done = 0;
    for (int asked = 1;; asked++) {
        FT_TRY(ft_mpi_check(mpi, mpi->table->test(request, &done), what));
        if (done) return FT_OK;
        if (asked % QUESTIONS_PER_LOOK == 0) FT_TRY(ft_mpi_look(mpi));
        if (asked > QUESTIONS_YIELDING)
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
        else if (asked > QUESTIONS_AWAKE)
            sched_yield();
    }
}

ft_status ft_mpi_gather(ft_mpi *mpi, void *data, int bytes) {
    ft_mpi_request request;
    FT_TRY(ft_mpi_look(mpi));
    FT_TRY(ft_mpi_check(mpi, mpi->table->gather(FT_MPI_ALL, data, bytes, &request), "all_gather"));
    return ft_mpi_wait(mpi, &request, "all_gather");
}

ft_status ft_mpi_agree(ft_mpi *mpi, const char *name, const char *value) {
    char all[FT_GROUP_RANKS][FT_MPI_VALUE] = {{0}};
    if (strlen(value) >= FT_MPI_VALUE)
        return ft_fail(FT_FAILED, where, "%s: a value of %zu bytes is too long", name, strlen(value));
    strcpy(all[mpi->rank], value);
    FT_TRY(ft_mpi_gather(mpi, all, FT_MPI_VALUE));
    for (int r = 1; r < mpi->ranks; r++)
        if (strcmp(all[r], all[0]) != 0)
            return ft_fail(FT_INVALID, "ranks", "rank %d on %s has another %s than rank 0 on %s: %s, not %s", r,
                           mpi->host[r], name, mpi->host[0], all[r], all[0]);
    return FT_OK;
}

// ---- coming and going

static ft_status enter(ft_mpi *mpi) {
    FT_TRY(ft_mpi_library_open(&mpi->table));
    FT_TRY(ft_mpi_check(mpi, mpi->table->open(&mpi->rank, &mpi->ranks), "MPI_Init"));
    if (mpi->ranks > FT_GROUP_RANKS)
        return ft_fail(FT_FAILED, where, "%d ranks; at most %d are a run", mpi->ranks, FT_GROUP_RANKS);
    if (gethostname(mpi->host[mpi->rank], FT_GROUP_HOST - 1) != 0) snprintf(mpi->host[mpi->rank], FT_GROUP_HOST, "?");
    return ft_mpi_gather(mpi, mpi->host, FT_GROUP_HOST);
}

ft_status ft_mpi_open(ft_mpi **mpi) {
    *mpi = ft_calloc(1, sizeof **mpi, "ranks over MPI");
    if (*mpi == NULL) return FT_NO_MEMORY;
    const ft_status status = enter(*mpi);
    if (status == FT_OK) return FT_OK;
    free(*mpi);
    *mpi = NULL;
    return status;
}

// What goes wrong in the end of all that went well does not change it, and the launcher tells of it. After a failure
// who did not listen may still read what this rank has sent where it lies: that goes with the process.
void ft_mpi_close(ft_mpi *mpi, bool well) {
    if (mpi == NULL || !well) return;
    (void)mpi->table->close();
    free(mpi);
}
