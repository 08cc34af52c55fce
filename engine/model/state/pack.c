#include "engine/model/state/pack.h"

#include "base/arena.h"
#include "base/context.h"
#include "engine/model/state/recorder.h"
#include "engine/model/state/trunk.h"
#include "kernels/ops/backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum member_state { HAS_TURN, WANTS_TURN, RESTS, ENDS_PASS } member_state;

struct ft_pack_member {
    ft_pack *pack;
    ft_pack_member *next;
    member_state state;
    pthread_cond_t turn; // it has it
    ft_device *pass;     // recorder of the pass that it ends
    ft_status status;    // what came of that
    ft_error error;
};

enum { MOST_MEMBERS = 256 };
// So many rows fill the device by themselves: together they are no faster.
enum { ROWS_ENOUGH = 512 };

struct ft_pack {
    pthread_mutex_t lock;
    ft_pack_member *first; // in the order in which they came
    int members;
    ft_device *device; // NULL: nobody asked yet
    char asked[FT_PACK_ASKED]; // for it
    ft_trunk trunk;
    ft_pack_counts counts;
    ft_gemm_rows rows[MOST_MEMBERS];
};

// ---- products that meet -------------------------------------------------------------------------------------------------

static bool same_view(const ft_tensor *a, const ft_tensor *b) { return a->data == b->data && a->rows == b->rows && a->cols == b->cols && a->stride == b->stride; }

static bool same_kind(const ft_gemm_args *x, const ft_gemm_args *y) {
    return x->trans_a == y->trans_a && x->trans_b == y->trans_b && x->accumulate == y->accumulate && x->a.dtype == y->a.dtype && x->c.dtype == y->c.dtype;
}

// Of the same weight, the same way.
static bool same_weight(const ft_gemm_args *x, const ft_gemm_args *y) {
    return same_view(&x->b, &y->b) && same_view(&x->bias, &y->bias) && !x->trans_a && x->scale == 0 && y->scale == 0;
}

// The product that a member's pass is at; NULL: it is at none, or it waits for nothing.
static const ft_gemm_args *product_of(const ft_pack_member *m) { return m->state == ENDS_PASS && m->status == FT_OK ? ft_recorder_product(m->pass) : NULL; }

static bool meets(const ft_pack_member *a, const ft_pack_member *b) {
    const ft_gemm_args *x = product_of(a), *y = product_of(b);
    if (x == NULL || y == NULL || ft_device_under(a->pass) != ft_device_under(b->pass) || !same_kind(x, y)) return false;
    return ft_device_queues(a->pass) || same_weight(x, y);
}

static int count_of(const ft_pack *p, const ft_pack_member *at) {
    int count = 0;
    for (const ft_pack_member *m = p->first; m != NULL; m = m->next) count += meets(at, m);
    return count;
}

// Whose product most are at, the first of several; NULL: nobody is at one.
static ft_pack_member *most_wanted(const ft_pack *p) {
    ft_pack_member *found = NULL;
    int most = 0;
    for (ft_pack_member *m = p->first; m != NULL; m = m->next) {
        const int count = count_of(p, m);
        if (count > most) most = count, found = m;
    }
    return found;
}

// One weight, and the rows of all, in the largest of their scratch.
static ft_status multiply_rows(ft_pack *p, ft_device *device, int count, const ft_gemm_args *const *product) {
    ft_gemm_args args = *product[0];
    for (int i = 1; i < count; i++) {
        p->rows[args.more_count++] = (ft_gemm_rows){product[i]->a, product[i]->c};
        if (product[i]->workspace.bytes > args.workspace.bytes) args.workspace = product[i]->workspace;
    }
    args.more = p->rows;
    return FT_RUN(device, gemm, &args);
}

// One launch, and the matrices of each.
static ft_status multiply_segments(ft_device *device, int count, const ft_gemm_args *const *product) {
    return FT_RUN(device, segment_product, (&(ft_segment_product_args){.product = product, .count = count}));
}

// Whose thread this is has an error of its own, maybe.
static void take_status(ft_pack_member *m, ft_status status) {
    m->status = status;
    if (status != FT_OK) ft_error_save(&m->error);
}

// The product of all who are at this one.
static void multiply_for_all(ft_pack *p, ft_pack_member *at) {
    ft_pack_member *served[MOST_MEMBERS];
    const ft_gemm_args *product[MOST_MEMBERS];
    ft_device *device = ft_device_under(at->pass);
    int count = 0;
    for (ft_pack_member *m = p->first; m != NULL; m = m->next) {
        if (!meets(at, m)) continue;
        product[count] = product_of(m);
        served[count++] = m;
    }
    const ft_status status = ft_device_queues(device) ? multiply_segments(device, count, product) : multiply_rows(p, device, count, product);
    p->counts.products += count;
    p->counts.calls++;
    for (int i = 0; i < count; i++) {
        take_status(served[i], status);
        ft_recorder_pass_over(served[i]->pass);
    }
}

// All else, up to the next product.
static void go_to_product(ft_pack_member *m) {
    while (m->status == FT_OK && !ft_recorder_done(m->pass) && ft_recorder_product(m->pass) == NULL) take_status(m, ft_recorder_run(m->pass));
}

// The passes that were noted, side by side. false: there is none.
static bool compute_passes(ft_pack *p) {
    bool any = false;
    ft_error before;
    ft_error_save(&before);
    for (ft_pack_member *at = NULL;; multiply_for_all(p, at)) {
        for (ft_pack_member *m = p->first; m != NULL; m = m->next)
            if (m->state == ENDS_PASS) go_to_product(m), any = true;
        if ((at = most_wanted(p)) == NULL) break;
    }
    ft_error_restore(&before);
    for (ft_pack_member *m = p->first; m != NULL; m = m->next) {
        if (m->state != ENDS_PASS) continue;
        ft_recorder_forget(m->pass); // what is behind a failure
        m->state = WANTS_TURN;
    }
    return any;
}

// ---- turns --------------------------------------------------------------------------------------------------------------

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
        ft_pack_member *next = next_turn(p, self);
        if (next != NULL) {
            next->state = HAS_TURN;
            if (next != self) pthread_cond_signal(&next->turn);
            return;
        }
        if (!compute_passes(p)) return;
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

void ft_pack_begin_pass(ft_pack_member *m, ft_device *device) {
    if (m != NULL) ft_recorder_begin(device);
}

ft_status ft_pack_end_pass(ft_pack_member *m, ft_device *device, ft_status status) {
    if (m == NULL) return status;
    ft_recorder_end(device);
    if (status != FT_OK) return ft_recorder_forget(device), status;
    m->pass = device;
    m->status = FT_OK;
    change(m, ENDS_PASS);
    if (m->status != FT_OK) ft_error_restore(&m->error);
    return m->status;
}

// Of a batch, whatever they are in the product.
static int64_t rows_of(const ft_gemm_args *args) { return args->trans_a ? args->a.rows : args->c.rows; }

ft_status ft_pack_multiply(ft_pack_member *m, ft_device *device, const ft_gemm_args *args) {
    return m == NULL || rows_of(args) >= ROWS_ENOUGH ? FT_RUN(device, gemm, args) : ft_recorder_multiply(device, args);
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

bool ft_pack_has_device(const ft_pack_member *m) { return m->pack->device != NULL; }

ft_device *ft_pack_device(const ft_pack_member *m, const char *asked) {
    return m->pack->device != NULL && strcmp(m->pack->asked, asked) == 0 ? m->pack->device : NULL;
}

void ft_pack_keep_device(ft_pack_member *m, const char *asked, ft_device *device) {
    m->pack->device = device;
    snprintf(m->pack->asked, sizeof m->pack->asked, "%s", asked);
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
