#include "engine/model/gradients/chain_parts.h"

#include "base/arena.h"
#include "engine/model/state/parameters.h"

#include <stdlib.h>
#include <string.h>

ft_status ft_chain_parts_add(ft_chain_parts *p, ft_chain_part part) {
    if (part.count == 0) return FT_OK;
    if (p->count == p->capacity) {
        const int capacity = p->capacity ? 2 * p->capacity : 64;
        ft_chain_part *grown = ft_realloc(p->list, (size_t)capacity, sizeof *grown, "what ranks send each other");
        if (grown == NULL) return FT_NO_MEMORY;
        p->list = grown;
        p->capacity = capacity;
    }
    int at = p->count++;
    for (; at > 0 && p->list[at - 1].point > part.point; at--)
        p->list[at] = p->list[at - 1];
    p->list[at] = part;
    return FT_OK;
}

// Parameters that stand behind each other and are left together are one part, with the padding between them.
ft_status ft_chain_parts_find(ft_chain_parts *parts, const ft_parameters *p) {
    ft_chain_part part = {.count = 0};
    parts->count = 0;
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (!q->trainable) continue;
        float *data = p->gradients + p->stores[q->store].first + q->offset;
        const int64_t count = (q->rows > 0 ? q->trained : 1) * q->cols;
        const bool goes_on = part.count > 0 && part.point == q->last && data >= part.data + part.count && i > 0 &&
                             p->list[i - 1].trainable && p->list[i - 1].store == q->store;
        if (goes_on) {
            part.count = data + count - part.data;
            continue;
        }
        FT_TRY(ft_chain_parts_add(parts, part));
        part = (ft_chain_part){q->last, data, count};
    }
    return ft_chain_parts_add(parts, part);
}

void ft_chain_parts_free(ft_chain_parts *p) {
    free(p->list);
    *p = (ft_chain_parts){.list = NULL};
}
