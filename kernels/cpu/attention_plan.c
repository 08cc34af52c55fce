#include "kernels/cpu/attention_plan.h"

// One head of one sequence.
typedef struct head_plan {
    int64_t queries, keys, blocks, block;
    int64_t block_cost, last_cost; // of a whole block and of the last one
} head_plan;

static head_plan plan_of(const ft_attention_shape *shape, ft_attention_cut cut, int32_t sequence) {
    head_plan h = {.queries = shape->cu_queries[sequence + 1] - shape->cu_queries[sequence],
                   .keys = shape->cu_keys[sequence + 1] - shape->cu_keys[sequence]};
    int64_t rows = cut == FT_CUT_KEYS ? h.keys : h.queries, other = cut == FT_CUT_KEYS ? h.queries : h.keys;
    // How many a block of the other side reaches, as far from the ends: who computes is all that this decides.
    const int64_t reach = (shape->causal ? 1 : 2) * (int64_t)shape->window + FT_ATTENTION_KEYS;
    if (shape->window > 0 && reach < other) other = reach;
    h.block = cut == FT_CUT_KEYS ? FT_ATTENTION_KEYS : cut == FT_CUT_QUERIES ? FT_ATTENTION_QUERIES : rows;
    if (h.block < 1) h.block = 1; // no queries: an item is there still, since it may have keys with gradients to clear
    h.blocks = rows ? (rows + h.block - 1) / h.block : 1;
    h.block_cost = h.block * other + FT_ATTENTION_ITEM_COST;
    h.last_cost = (rows - (h.blocks - 1) * h.block) * other + FT_ATTENTION_ITEM_COST;
    return h;
}

static int64_t head_cost(const head_plan *h) { return (h->blocks - 1) * h->block_cost + h->last_cost; }

int64_t ft_attention_cost(const ft_attention_shape *shape, ft_attention_cut cut, int64_t *largest) {
    int64_t total = 0, most = 0;
    for (int32_t s = 0; s < shape->sequences; s++) {
        head_plan h = plan_of(shape, cut, s);
        int64_t item = h.blocks > 1 ? h.block_cost : h.last_cost;
        if (item > most) most = item;
        total += head_cost(&h) * shape->heads;
    }
    if (largest) *largest = most;
    return total;
}

static ft_attention_item item_of(const head_plan *h, ft_attention_cut cut, int32_t sequence, int32_t head,
                                 int64_t block) {
    ft_attention_item item = {.sequence = sequence,
                              .head = head,
                              .queries = h->queries,
                              .keys = h->keys,
                              .last_query = h->queries,
                              .last_key = h->keys};
    int64_t first = block * h->block, last = first + h->block;
    if (cut == FT_CUT_QUERIES) {
        item.first_query = first;
        if (last < h->queries) item.last_query = last;
    } else if (cut == FT_CUT_KEYS) {
        item.first_key = first;
        if (last < h->keys) item.last_key = last;
    }
    return item;
}

// An item belongs to the part in which its first unit of cost lies.
void ft_attention_part(const ft_attention_shape *shape, ft_attention_cut cut, int64_t cost, int index, int parts,
                       ft_attention_work *work, void *context, int thread) {
    int64_t low = cost / parts * index + cost % parts * index / parts;
    int64_t high = cost / parts * (index + 1) + cost % parts * (index + 1) / parts;
    int64_t at = 0;
    for (int32_t s = 0; s < shape->sequences && at < high; s++) {
        head_plan h = plan_of(shape, cut, s);
        int64_t whole = head_cost(&h);
        for (int32_t head = 0; head < shape->heads && at < high; head++) {
            if (at + whole <= low) {
                at += whole;
                continue;
            }
            for (int64_t b = 0; b < h.blocks && at < high; b++) {
                if (at >= low) {
                    ft_attention_item item = item_of(&h, cut, s, head, b);
                    work(context, &item, thread);
                }
                at += b + 1 < h.blocks ? h.block_cost : h.last_cost;
            }
        }
    }
}
