#include "engine/model/state/pack.h"

#include "base/arena.h"
#include "base/context.h"
#include "engine/model/state/trunk.h"
#include "kernels/ops/backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum member_state { HAS_TURN, WANTS_TURN, RESTS, BEGINS_PASS, AT_PRODUCT } member_state;

struct ft_pack_member {
    ft_pack *pack;
    ft_pack_member *next;
    member_state state;
    pthread_cond_t turn; // it has it
    bool in_pass;
    ft_device *device;   // of its product
    const ft_gemm_args *args;
    ft_status status;    // what came of it
    ft_error error;
};

enum { MOST_MEMBERS = 256 };
// So many rows fill the cores by themselves: together they are no faster, and a wait for others is a switch of threads.
enum { ROWS_ENOUGH = 512 };

struct ft_pack {
    pthread_mutex_t lock;
    ft_pack_member *first; // in the order in which they came
    int members;
    ft_device *device; // NULL: nobody asked yet
    char device_name[64];
    ft_trunk trunk;
    ft_pack_counts counts;
    ft_gemm_rows rows[MOST_MEMBERS];
};

// ---- products that meet -------------------------------------------------------------------------------------------------

static bool same_view(const ft_tensor *a, const ft_tensor *b) { return a->data == b->data && a->rows == b->rows && a->cols == b->cols && a->stride == b->stride; }

// Of the same weight, the same way.
static bool meets(const ft_pack_member *a, const ft_pack_member *b) {
    const ft_gemm_args *x = a->args, *y = b->args;
    return a->device == b->device && same_view(&x->b, &y->b) && same_view(&x->bias, &y->bias) && x->trans_b == y->trans_b &&
           x->accumulate == y->accumulate && !x->trans_a && !y->trans_a && x->scale == 0 && y->scale == 0 && x->a.dtype == y->a.dtype && x->c.dtype == y->c.dtype;
}

static int count_of(const ft_pack *p, const ft_pack_member *at) {
    int count = 0;
    for (const ft_pack_member *m = p->first; m != NULL; m = m->next) count += m->state == AT_PRODUCT && meets(at, m);
    return count;
}

// Whose product most are at, the first of several; NULL: nobody is at one.
static ft_pack_member *most_wanted(const ft_pack *p) {
    ft_pack_member *found = NULL;
    int most = 0;
    for (ft_pack_member *m = p->first; m != NULL; m = m->next) {
        const int count = m->state == AT_PRODUCT ? count_of(p, m) : 0;
        if (count > most) most = count, found = m;
    }
    return found;
}

// The product of all who are at this one. Whose thread this is has an error of its own, maybe.
static void multiply_for_all(ft_pack *p, ft_pack_member *at) {
    ft_gemm_args args = *at->args;
    ft_pack_member *served[MOST_MEMBERS];
    ft_error before, error;
    int count = 0;
    for (ft_pack_member *m = p->first; m != NULL; m = m->next) {
        if (m->state != AT_PRODUCT || !meets(at, m)) continue;
        if (m != at) p->rows[args.more_count++] = (ft_gemm_rows){m->args->a, m->args->c};
        if (m->args->workspace.bytes > args.workspace.bytes) args.workspace = m->args->workspace;
        served[count++] = m;
    }
    args.more = p->rows;
    ft_error_save(&before);
    const ft_status status = FT_RUN(at->device, gemm, &args);
    ft_error_save(&error);
    ft_error_restore(&before);
    p->counts.products += count;
    p->counts.calls++;
    for (int i = 0; i < count; i++) {
        served[i]->state = WANTS_TURN;
        served[i]->status = status;
        if (status != FT_OK) served[i]->error = error;
    }
}

// ---- turns --------------------------------------------------------------------------------------------------------------

// All who begin a pass do.
static bool begin_passes(ft_pack *p) {
    bool any = false;
    for (ft_pack_member *m = p->first; m != NULL; m = m->next)
        if (m->state == BEGINS_PASS) m->state = WANTS_TURN, any = true;
    return any;
}

// Whose turn it is behind `self`, itself first; NULL: nobody wants one.
static ft_pack_member *next_turn(ft_pack *p, ft_pack_member *self) {
    if (self != NULL && self->state == WANTS_TURN) return self;
    for (ft_pack_member *m = p->first; m != NULL; m = m->next)
        if (m->state == WANTS_TURN) return m;
    return NULL;
}

static bool is_taken(const ft_pack *p) {
    for (const ft_pack_member *m = p->first; m != NULL; m = m->next)
        if (m->state == HAS_TURN) return true;
    return false;
}

// Under the lock: the turn is nobody's, or stays where it is.
static void give_turn(ft_pack *p, ft_pack_member *self) {
    while (!is_taken(p)) {
        ft_pack_member *next = next_turn(p, self), *at;
        if (next != NULL) {
            next->state = HAS_TURN;
            if (next != self) pthread_cond_signal(&next->turn);
            return;
        }
        if ((at = most_wanted(p)) != NULL) multiply_for_all(p, at);
        else if (!begin_passes(p)) return;
    }
}

static void wait_for_turn(ft_pack_member *m) {
    give_turn(m->pack, m);
    while (m->state != HAS_TURN) pthread_cond_wait(&m->turn, &m->pack->lock);
}

static void change(ft_pack_member *m, member_state state) {
    if (m == NULL) return;
    pthread_mutex_lock(&m->pack->lock);
    m->state = state;
    if (state == RESTS) give_turn(m->pack, m);
    else wait_for_turn(m);
    pthread_mutex_unlock(&m->pack->lock);
}

void ft_pack_rest(ft_pack_member *m) { change(m, RESTS); }
void ft_pack_wake(ft_pack_member *m) { change(m, WANTS_TURN); }

void ft_pack_begin_pass(ft_pack_member *m) {
    if (m == NULL) return;
    change(m, BEGINS_PASS);
    m->in_pass = true;
}

void ft_pack_end_pass(ft_pack_member *m) {
    if (m != NULL) m->in_pass = false;
}

// Others may come at any moment: the count is under the lock.
static bool is_alone(const ft_pack_member *m) {
    pthread_mutex_lock(&m->pack->lock);
    const bool alone = m->pack->members == 1;
    pthread_mutex_unlock(&m->pack->lock);
    return alone;
}

ft_status ft_pack_multiply(ft_pack_member *m, ft_device *device, const ft_gemm_args *args) {
    if (m == NULL || !m->in_pass || is_alone(m) || args->c.rows >= ROWS_ENOUGH) return FT_RUN(device, gemm, args);
    m->device = device;
    m->args = args;
    change(m, AT_PRODUCT);
    if (m->status != FT_OK) ft_error_restore(&m->error);
    return m->status;
}

// ---- members ------------------------------------------------------------------------------------------------------------

ft_pack_member *ft_pack_present(void) { return ft_context_now()->kept[FT_CONTEXT_PACK].value; }

ft_status ft_pack_join(ft_pack *p, ft_pack_member **out) {
    ft_pack_member *m = ft_calloc(1, sizeof *m, "a run of several");
    *out = NULL;
    if (m == NULL) return FT_NO_MEMORY;
    pthread_mutex_lock(&p->lock);
    if (p->members == MOST_MEMBERS) {
        pthread_mutex_unlock(&p->lock);
        free(m);
        return ft_fail(FT_FAILED, "pack", "more than %d runs in one process", MOST_MEMBERS);
    }
    *m = (ft_pack_member){.pack = p, .state = WANTS_TURN};
    pthread_cond_init(&m->turn, NULL);
    ft_pack_member **end = &p->first;
    while (*end != NULL) end = &(*end)->next;
    *end = m;
    p->members++;
    wait_for_turn(m);
    pthread_mutex_unlock(&p->lock);
    ft_context_now()->kept[FT_CONTEXT_PACK].value = m;
    *out = m;
    return FT_OK;
}

void ft_pack_leave(ft_pack_member *m) {
    ft_pack *p = m->pack;
    ft_context_now()->kept[FT_CONTEXT_PACK].value = NULL;
    pthread_mutex_lock(&p->lock);
    ft_pack_member **at = &p->first;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    p->members--;
    give_turn(p, NULL);
    pthread_mutex_unlock(&p->lock);
    pthread_cond_destroy(&m->turn);
    free(m);
}

// ---- what they share ----------------------------------------------------------------------------------------------------

ft_trunk *ft_pack_trunk(ft_pack_member *m) { return &m->pack->trunk; }

ft_pack_counts ft_pack_counted(ft_pack *p) {
    pthread_mutex_lock(&p->lock);
    const ft_pack_counts counts = p->counts;
    pthread_mutex_unlock(&p->lock);
    return counts;
}

ft_status ft_pack_cpu(ft_pack_member *m, int threads, const char *isa, ft_device **device) {
    ft_pack *p = m->pack;
    char name[sizeof p->device_name];
    *device = NULL;
    snprintf(name, sizeof name, "%d %s", threads, isa != NULL ? isa : "");
    if (p->device == NULL) {
        ft_context *before = ft_context_enter(NULL); // its threads outlive the member's context
        const ft_status status = ft_cpu_open(threads, isa, &p->device);
        ft_context_enter(before);
        FT_TRY(status);
        memcpy(p->device_name, name, sizeof name);
    }
    if (strcmp(name, p->device_name) == 0) *device = p->device;
    return FT_OK;
}

ft_status ft_pack_create(ft_pack **out) {
    ft_pack *p = ft_calloc(1, sizeof *p, "runs of one process");
    *out = p;
    if (p == NULL) return FT_NO_MEMORY;
    pthread_mutex_init(&p->lock, NULL);
    return FT_OK;
}

void ft_pack_destroy(ft_pack *p) {
    if (p == NULL) return;
    ft_device_close(p->device);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
