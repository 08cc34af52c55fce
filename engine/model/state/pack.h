// pack.h - runs that train beside one frozen trunk in one process: each has a thread, a context and all that a run has alone, and one of
// them runs at a time. What the pass of a micro-batch computes is noted first (recorder.h); when everybody's is, one thread computes all passes
// side by side, and what they have in common is one call: on the CPU the products of one frozen weight, with the rows of all
// (ft_gemm_args.more), on a device that queues the products of one kind, those of adapters too, in one launch of several segments
// (kernels/ops/segment_product.h).
//
//     ft_pack_join(pack, &member);   ... everything a run does ...   ft_pack_leave(member);
//
// Turns. Who has the turn keeps it until it leaves, rests (waits for something outside), or is at the end of a pass.
// Passes. Who is at the end of one waits until everybody else is, rests, or is gone. Who evaluates or saves meanwhile keeps the others
// waiting, which costs nothing: the device computes for one at a time anyway.
// Bits. A row of a product does not depend on the rows beside it (kernels/ops/gemm.h), and nothing else is shared: on the CPU every run
// has the bits that it has alone, whoever comes and goes. On a GPU it has those that it has in a pack of one, whoever comes and goes; alone
// its small products are cuBLASLt's, whose sums have another order.
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
} ft_pack_counts; // of those that may be met at
ft_pack_counts ft_pack_counted(ft_pack *pack);

// The present context's: the calling thread has the turn when this returns. To be given up by ft_pack_leave in the same thread.
ft_status ft_pack_join(ft_pack *pack, ft_pack_member **member);
void ft_pack_leave(ft_pack_member *member);
ft_pack_member *ft_pack_present(void); // NULL: the present context is in no pack

// The device that all members have in common, by what was asked for ("cuda:0 2 avx2"); NULL: it was asked for otherwise, or there is none yet. One that
// is kept is closed with the pack.
enum { FT_PACK_ASKED = 96 };
bool ft_pack_has_device(const ft_pack_member *member);
ft_device *ft_pack_device(const ft_pack_member *member, const char *asked);
void ft_pack_keep_device(ft_pack_member *member, const char *asked, ft_device *device);

// NULL is fine with all of these: then there is nobody to think of.
void ft_pack_rest(ft_pack_member *member); // others have their turns until it wakes
void ft_pack_wake(ft_pack_member *member); // it has the turn when this returns
// Of a micro-batch on `device`, a recorder. end: its products and all else have been computed, or queued, when this returns; a pass that failed
// before is given up, and its status comes back.
void ft_pack_begin_pass(ft_pack_member *member, ft_device *device);
ft_status ft_pack_end_pass(ft_pack_member *member, ft_device *device, ft_status status);
// A product inside of a pass that others may have too, with scratch that suffices for their rows where the device is the CPU. One that fills the
// device by itself is no such product: that is decided by its own rows, so that no result depends on who is there.
ft_status ft_pack_multiply(ft_pack_member *member, ft_device *device, const ft_gemm_args *args);

#endif
