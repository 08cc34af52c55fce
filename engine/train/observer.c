#include "engine/train/observer.h"

#include "engine/train/trainer.h"

static const ft_run_observer *watching;
static double told;

void ft_run_observe(const ft_run_observer *observer) {
    watching = observer;
    told = 0;
}

const ft_run_observer *ft_run_observer_of(void) { return watching; }

bool ft_run_taken(void) { return watching != NULL && watching->taken; }

bool ft_run_keeps(void) { return watching == NULL || watching->keeps == NULL || watching->keeps(watching->context); }

void ft_run_ended(const ft_trainer *t) {
    if (watching != NULL && watching->ended != NULL)
        watching->ended(watching->context, t->room.memory != NULL ? ft_memory_read(t->room.memory).peak_reserved : 0);
}

void ft_run_alive(const ft_trainer *t, bool logged) {
    if (watching == NULL) return;
    double now = ft_now();
    if (!logged && now - told < 0.1) return;
    told = now;
    if (t == NULL)
        watching->alive(watching->context, -1, 0, 0, logged);
    else
        watching->alive(watching->context, t->step.state.step, t->room.plan.total_steps, ft_memory_read(t->room.memory).reserved,
                        logged);
}
