#include "engine/train/room/ranks.h"

#include "base/context.h"
#include "base/sha256.h"
#include "base/stop.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Every rank writes in its own place, all wait, all read. What is said again and again stands in two places by turns:
// while somebody still reads the one, the next is said in the other. Between hosts the places are sent around.
typedef struct ft_ranks_page {
    int stop[2][FT_GROUP_RANKS];
    char text[FT_GROUP_RANKS][65]; // hashes of what has to be the same
    char path[PATH_MAX];
    size_t values[FT_GROUP_RANKS][FT_RANKS_VALUES];
    ft_rank_facts facts[FT_GROUP_RANKS];
} ft_ranks_page;

ft_status ft_ranks_open(ft_group *group, ft_ranks **ranks) {
    *ranks = ft_calloc(1, sizeof **ranks, "the ranks of a run");
    if (*ranks == NULL) {
        ft_group_close(group);
        return FT_NO_MEMORY;
    }
    **ranks = (ft_ranks){.group = group, .rank = group->rank, .ranks = group->ranks};
    void *page;
    ft_status status;
    if (ft_group_shares(group))
        status = ft_group_share(group, sizeof *(*ranks)->page, &page);
    else
        status = (page = ft_calloc(1, sizeof *(*ranks)->page, "what ranks say")) != NULL ? FT_OK : FT_NO_MEMORY;
    (*ranks)->page = page;
    if (status == FT_OK) return FT_OK;
    ft_ranks_close(*ranks);
    *ranks = NULL;
    return status;
}

void ft_ranks_close(ft_ranks *r) {
    if (r == NULL) return;
    if (!ft_group_shares(r->group)) free(r->page);
    ft_group_close(r->group); // and what is shared
    free(r);
}

// Every rank has written its part of the array, of `bytes`.
static ft_status say(ft_ranks *r, void *array, size_t bytes) {
    if (ft_group_shares(r->group)) return ft_group_barrier(r->group);
    return ft_group_all_gather(r->group, (ft_range){array, (int64_t)bytes * r->ranks, FT_U8});
}

void ft_ranks_enter(ft_ranks *ranks) {
    ft_context *c = ft_context_now();
    pthread_mutex_lock(&c->lock);
    c->kept[FT_CONTEXT_RANKS].value = ranks;
    pthread_mutex_unlock(&c->lock);
}

ft_ranks *ft_ranks_present(void) {
    ft_context *c = ft_context_now();
    pthread_mutex_lock(&c->lock);
    ft_ranks *ranks = c->kept[FT_CONTEXT_RANKS].value;
    pthread_mutex_unlock(&c->lock);
    return ranks;
}

ft_status ft_ranks_agree(ft_ranks *r) {
    int *stop = r->page->stop[r->agreements++ % 2];
    stop[r->rank] = ft_stop_asked();
    FT_TRY(say(r, stop, sizeof *stop));
    int agreed = 0;
    for (int i = r->ranks; i-- > 0;)
        if (stop[i] != 0) agreed = stop[i]; // the first rank's before another's
    ft_stop_agreed(agreed);
    return FT_OK;
}

ft_status ft_ranks_same(ft_ranks *r, const char *what, const char *text) {
    unsigned char digest[32];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    ft_sha256_add(&hash, text, strlen(text));
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, r->page->text[r->rank]);
    FT_TRY(say(r, r->page->text, sizeof *r->page->text));
    ft_status status = FT_OK;
    for (int i = 1; status == FT_OK && i < r->ranks; i++)
        if (strcmp(r->page->text[i], r->page->text[0]) != 0)
            status = ft_fail(FT_INVALID, "ranks", "rank %d on %s has another %s than rank 0 on %s", i,
                             r->group->host[i], what, r->group->host[0]);
    if (status != FT_OK) return status; // on all of them
    return ft_group_barrier(r->group);
}

ft_status ft_ranks_path(ft_ranks *r, ft_arena *arena, const char **path) {
    if (r->rank == 0) snprintf(r->page->path, sizeof r->page->path, "%s", *path);
    if (ft_group_shares(r->group))
        FT_TRY(ft_group_barrier(r->group));
    else
        FT_TRY(ft_group_broadcast(r->group, 0, (ft_range){r->page->path, sizeof r->page->path, FT_U8}));
    if (r->rank > 0) *path = ft_arena_strdup(arena, r->page->path);
    if (*path == NULL) return FT_NO_MEMORY;
    return ft_group_barrier(r->group);
}

ft_status ft_ranks_least(ft_ranks *r, int count, size_t *values) {
    memcpy(r->page->values[r->rank], values, (size_t)count * sizeof *values);
    FT_TRY(ft_group_barrier(r->group));
    for (int i = 0; i < r->ranks; i++)
        for (int k = 0; k < count; k++)
            if (r->page->values[i][k] < values[k]) values[k] = r->page->values[i][k];
    return ft_group_barrier(r->group);
}

bool ft_ranks_fail(ft_ranks *r, ft_status status) {
    ft_error error, named;
    if (status == FT_OK || status == FT_INTERRUPTED || status == FT_TERMINATED || status == FT_DIVERGED) return false;
    ft_error_save(&error);
    named = error;
    if (status != FT_INVALID)
        snprintf(named.message, sizeof named.message, "rank %d on %s: %.800s", r->rank, r->group->host[r->rank],
                 error.message);
    ft_group_abort(r->group, &named);
    ft_error_restore(&error);
    return true;
}

void ft_ranks_note(ft_ranks *r, const ft_rank_facts *facts) { r->page->facts[r->rank] = *facts; }
ft_status ft_ranks_tell(ft_ranks *r) { return say(r, r->page->facts, sizeof *r->page->facts); }
const ft_rank_facts *ft_ranks_facts(const ft_ranks *r, int rank) { return &r->page->facts[rank]; }
