#include "engine/train/room/observer.h"

#include "base/clock.h"
#include "base/context.h"
#include "engine/memory/memory.h"
#include "kernels/devices/devices.h"

void ft_run_observe(ft_run_observer *observer) {
    ft_context_now()->kept[FT_CONTEXT_OBSERVER].value = observer;
    if (observer == NULL) return;
    observer->told = 0;
    observer->begun = false;
    observer->left = 0;
}

static ft_run_observer *present(void) { return ft_context_now()->kept[FT_CONTEXT_OBSERVER].value; }

const ft_run_observer *ft_run_observer_of(void) { return present(); }

bool ft_run_is_first(void) {
    ft_run_observer *watching = present();
    if (watching == NULL || watching->begun) return false;
    watching->begun = true;
    return true;
}

bool ft_run_is_last(void) { return present() != NULL && present()->left == 0; }

void ft_run_leaves(int runs) {
    if (present() != NULL) present()->left = runs;
}

static size_t less(size_t bytes, size_t by) { return bytes > by ? bytes - by : 1; }

void ft_run_limits(struct ft_host_limits *limits) {
    const ft_run_observer *observer = present();
    ft_host_limits_read(limits);
    for (int i = 0; observer != NULL && i < limits->count; i++) {
        ft_host_limit *l = &limits->list[i];
        if (l->kind != FT_LIMIT_ADDRESSES && l->kind != FT_LIMIT_DATA) l->bytes = less(l->bytes, observer->beside); // those are its own
    }
}

bool ft_run_taken(void) {
    const ft_run_observer *watching = present();
    return watching != NULL && watching->taken;
}

bool ft_run_keeps(void) {
    const ft_run_observer *watching = present();
    return watching == NULL || watching->keeps == NULL || watching->keeps(watching->context);
}

void ft_run_ended(ft_memory *memory) {
    const ft_run_observer *watching = present();
    if (watching != NULL && watching->ended != NULL)
        watching->ended(watching->context, memory != NULL ? ft_memory_read(memory).peak_reserved : 0);
}

void ft_run_alive(ft_memory *memory, int64_t step, int64_t total_steps, bool logged) {
    ft_run_observer *watching = present();
    if (watching == NULL) return;
    double now = ft_now();
    if (!logged && now - watching->told < 0.1) return;
    watching->told = now;
    if (memory == NULL) watching->alive(watching->context, -1, 0, 0, logged);
    else watching->alive(watching->context, step, total_steps, ft_memory_read(memory).reserved, logged);
}
