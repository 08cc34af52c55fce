#include "hpo/study/neighbours.h"

#include "base/clock.h"
#include "base/log.h"
#include "hpo/sharing/record.h"
#include "hpo/study/slots.h"
#include "kernels/devices/devices.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- what is known of a trial --------------------------------------------------------------------------------------

static double seconds_of(const json_t *message, const char *key) {
    const double value = json_number_value(json_object_get(message, key));
    return value > 0 ? value : 0;
}

void ft_neighbours_priced(ft_slot *slot, const json_t *message) {
    ft_neighbour *n = &slot->neighbour;
    const char *ledger = json_string_value(json_object_get(message, "ledger"));
    n->price = (ft_step_price){.seconds = seconds_of(message, "seconds"),
                               .work = {.occupied = seconds_of(message, "occupied"),
                                        .computing = seconds_of(message, "computing"),
                                        .moving = seconds_of(message, "moving"),
                                        .starting = seconds_of(message, "starting"),
                                        .travelling = seconds_of(message, "travelling")},
                               .threads = (int)json_integer_value(json_object_get(message, "threads"))};
    n->priced = ledger != NULL && n->price.seconds > 0;
    if (!n->priced) return;
    snprintf(n->ledger, sizeof n->ledger, "%s", ledger);
    n->demand = ft_demand_of(&n->price, ft_cpu_threads(), ft_sharing_has_mps());
}

void ft_neighbours_changed(ft_tuning *t) { t->company++; }

static bool is_there(const ft_slot *slot) { return slot->number >= 0 && slot->state == FT_SLOT_TRAINING; }

bool ft_neighbours_meet(const ft_slot *a, const ft_slot *b) {
    if (!a->neighbour.priced || !b->neighbour.priced) return true; // perhaps
    return strcmp(a->neighbour.ledger, b->neighbour.ledger) == 0;
}

// Those that train where `slot` is or would be, without it. *known: what they all take, too; then demands [0, count)
// are theirs.
static int find_others(const ft_tuning *t, const ft_slot *slot, ft_demand demands[FT_SHARING_MOST], bool *known) {
    int count = 0;
    *known = true;
    for (int i = 0; i < t->slot_count && count < FT_SHARING_MOST - 1; i++) {
        const ft_slot *other = &t->slots[i];
        if (other == slot || !is_there(other) || !ft_neighbours_meet(slot, other)) continue;
        *known = *known && other->neighbour.priced;
        demands[count++] = other->neighbour.demand;
    }
    return count;
}

// ---- whether one more may come -------------------------------------------------------------------------------------

static void tell(const ft_slot *slot, int others, double adds) {
    char gain[64] = "they are too many to tell";
    if (!isnan(adds)) snprintf(gain, sizeof gain, "it would add %.2f of a trial", adds);
    ft_info("trial %lld waits for one of the %d on its device to end: by plan, beside %s %s (study.share_devices)",
            (long long)slot->number, others, others == 1 ? "it" : "them", gain);
}

static bool judge(const ft_tuning *t, ft_slot *slot) {
    ft_neighbour *n = &slot->neighbour;
    ft_demand demands[FT_SHARING_MOST];
    bool known;
    double adds;
    const int others = find_others(t, slot, demands, &known);
    if (others == 0) return true;
    if (strcmp(t->options->share_devices, "never") == 0) return false;
    if (!n->priced || !known) return true;
    demands[others] = n->demand;
    const bool pays = ft_sharing_pays(others + 1, demands, &adds);
    if (!pays && !n->told) tell(slot, others, adds);
    n->told = n->told || !pays;
    return pays;
}

bool ft_neighbours_may(ft_tuning *t, ft_slot *slot) {
    ft_neighbour *n = &slot->neighbour;
    if (strcmp(t->options->share_devices, "always") == 0 || t->pack > 1) return true;
    if (n->judged != t->company + 1) {
        n->judged = t->company + 1; // 0: it never was
        n->may = judge(t, slot);
    }
    if (!n->may && n->since == 0) n->since = ft_now();
    if (n->may && n->since > 0) {
        n->held += ft_now() - n->since;
        n->since = 0;
    }
    return n->may;
}

// ---- what is seen --------------------------------------------------------------------------------------------------

static void look_around(const ft_tuning *t, ft_slot *slot) {
    ft_neighbour *n = &slot->neighbour;
    ft_demand demands[FT_SHARING_MOST];
    double slowdown[FT_SHARING_MOST];
    bool known;
    if (n->company == t->company) return;
    n->company = t->company;
    n->others = find_others(t, slot, demands, &known);
    if (n->others > n->most) n->most = n->others;
    demands[n->others] = n->demand;
    n->slowdown = known && ft_sharing_slowdowns(n->others + 1, demands, slowdown) ? slowdown[n->others] : NAN;
}

void ft_neighbours_sign(ft_tuning *t, ft_slot *slot, double now, int64_t step) {
    ft_neighbour *n = &slot->neighbour;
    if (!n->priced || !is_there(slot) || t->pack > 1) return;
    const double seconds = n->tempo.alone;
    const int64_t steps = n->tempo.alone_steps;
    look_around(t, slot);
    ft_tempo_note(&n->tempo, now, step, t->company, n->others, n->slowdown);
    t->alone.seconds += n->tempo.alone - seconds;
    t->alone.predicted += (double)(n->tempo.alone_steps - steps) * n->price.seconds;
    t->alone.steps += n->tempo.alone_steps - steps;
}

ft_status ft_neighbours_store(ft_tuning *t, int64_t number) {
    const ft_slot *slot = ft_slots_of(t, number);
    if (slot == NULL || !slot->neighbour.priced || (slot->neighbour.most == 0 && slot->neighbour.held == 0))
        return FT_OK;
    const ft_neighbour *n = &slot->neighbour;
    const double scale = t->alone.steps >= FT_TEMPO_STEPS ? t->alone.seconds / t->alone.predicted : 0;
    ft_sharing_record r = {.trial = number,
                           .beside = n->most,
                           .share = n->demand.share,
                           .predicted = ft_tempo_predicted(&n->tempo),
                           .held = n->held};
    r.against = ft_tempo_against_name(ft_tempo_seen(&n->tempo, n->price.seconds, scale, &r.seen));
    return ft_sharing_store(t->study, &r);
}
