// pack.h - runs that train beside one frozen trunk in one process: each has a thread, a context and all that a run has alone; one of
// them runs at a time, and where several come to a product of the same frozen weight it is one product for all their rows.
//
//     ft_pack_join(pack, &member);   ... everything a run does ...   ft_pack_leave(member);
//
// Turns. Who has the turn keeps it until it leaves, rests (waits for something outside), begins a pass, or comes to a product.
// Passes. Who begins one waits until everybody else begins one too, rests, or is gone: so that all are at the same product then. Who
// evaluates or saves meanwhile keeps the others waiting, which costs nothing: the device computes for one at a time anyway.
// Bits. A row of a product does not depend on the rows beside it (kernels/ops/gemm.h), and nothing else is shared: every run
// has the bits that it has alone, whoever comes and goes.
#ifndef FT_PACK_H
#define FT_PACK_H

#include "kernels/ops/device.h"
#include "kernels/ops/gemm.h"

typedef struct ft_pack ft_pack;
typedef struct ft_pack_member ft_pack_member;
struct ft_trunk;

ft_status ft_pack_create(ft_pack **pack);
void ft_pack_destroy(ft_pack *pack); // all have left; NULL is fine
struct ft_trunk *ft_pack_trunk(ft_pack_member *member);
// What the members computed so far: products of trunk weights, and how many calls they took.
typedef struct ft_pack_counts {
    int64_t products, calls;
} ft_pack_counts;
ft_pack_counts ft_pack_counted(ft_pack *pack);

// The present context's: the calling thread has the turn when this returns. To be given up by ft_pack_leave in the same thread.
ft_status ft_pack_join(ft_pack *pack, ft_pack_member **member);
void ft_pack_leave(ft_pack_member *member);
ft_pack_member *ft_pack_present(void); // NULL: the present context is in no pack

// The CPU with so many threads (as ft_cpu_open has it), one for all members, closed with the pack. *device NULL: they have another.
ft_status ft_pack_cpu(ft_pack_member *member, int threads, const char *isa, ft_device **device);

// NULL is fine with all of these: then there is nobody to think of.
void ft_pack_rest(ft_pack_member *member); // others have their turns until it wakes
void ft_pack_wake(ft_pack_member *member); // it has the turn when this returns
void ft_pack_begin_pass(ft_pack_member *member);
void ft_pack_end_pass(ft_pack_member *member);
// A product whose scratch suffices for the further rows of others (ft_gemm_args.more). Inside a pass it waits for those who have yet to
// come to theirs, unless it has rows enough.
ft_status ft_pack_multiply(ft_pack_member *member, ft_device *device, const ft_gemm_args *args);

#endif
