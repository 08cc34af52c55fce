#include "engine/train/observer.h"

#include "engine/train/trainer.h"
#include "kernels/context.h"

void ft_run_observe(ft_run_observer *observer) {
    ft_context_now()->kept[FT_CONTEXT_OBSERVER].value = observer;
    if (observer != NULL) observer->told = 0;
}

static ft_run_observer *present(void) { return ft_context_now()->kept[FT_CONTEXT_OBSERVER].value; }

const ft_run_observer *ft_run_observer_of(void) { return present(); }

bool ft_run_taken(void) {
    const ft_run_observer *watching = present();
    return watching != NULL && watching->taken;
}

bool ft_run_keeps(void) {
    const ft_run_observer *watching = present();
    return watching == NULL || watching->keeps == NULL || watching->keeps(watching->context);
}

void ft_run_ended(const ft_trainer *t) {
    const ft_run_observer *watching = present();
    if (watching != NULL && watching->ended != NULL)
        watching->ended(watching->context, t->room.memory != NULL ? ft_memory_read(t->room.memory).peak_reserved : 0);
}

void ft_run_alive(const ft_trainer *t, bool logged) {
    ft_run_observer *watching = present();
    if (watching == NULL) return;
    double now = ft_now();
    if (!logged && now - watching->told < 0.1) return;
    watching->told = now;
    if (t == NULL)
        watching->alive(watching->context, -1, 0, 0, logged);
    else
        watching->alive(watching->context, t->step.state.step, t->room.plan.total_steps, ft_memory_read(t->room.memory).reserved,
                        logged);
}
