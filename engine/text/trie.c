#include "engine/text/trie.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { FREE = -1, TAKEN = -2 };

static int by_bytes(const void *a, const void *b) {
    const ft_trie_key *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

// A node whose children are still to be placed: the keys that share its first `depth` bytes.
typedef struct pending {
    int32_t node;
    size_t low, high, depth;
} pending;

static ft_status grow(ft_trie *trie, int32_t needed) {
    if (needed <= trie->count) return FT_OK;
    if (needed > INT32_MAX / 2) return ft_fail(FT_INVALID, NULL, "the tokens of a vocabulary are too many and too long to be looked up");
    int32_t count = needed + needed / 2 + 1024;
    ft_trie_node *nodes = ft_realloc(trie->nodes, (size_t)count, sizeof *nodes, "a vocabulary's trie");
    if (nodes == NULL) return FT_NO_MEMORY;
    for (int32_t i = trie->count; i < count; i++)
        nodes[i] = (ft_trie_node){0, FREE, -1};
    trie->nodes = nodes, trie->count = count;
    return FT_OK;
}

// The lowest base, from *start on, at which every child finds a free place. *start skips what has filled up, and free places that nothing
// fits into: a vocabulary made for it would have every search go through them all.
static ft_status place(ft_trie *trie, const unsigned char *bytes, int count, int32_t *start, int32_t *base) {
    enum { FAR = 4096 };
    int32_t at = *start > bytes[0] ? *start : bytes[0] + 1, tried = 0;
    for (;; at++) {
        FT_TRY(grow(trie, at + 512));
        if (trie->nodes[at].parent != FREE) {
            tried++;
            continue;
        }
        int32_t candidate = at - bytes[0];
        int i = 1;
        while (i < count && trie->nodes[candidate + bytes[i]].parent == FREE)
            i++;
        if (i == count) {
            // Passing many taken places for one free: later searches may begin here, at the cost of a few holes.
            if (tried > 64 && tried >= (at - *start) - (at - *start) / 16) *start = at;
            else if (at - *start > FAR) *start = at - FAR / 2;
            *base = candidate;
            return FT_OK;
        }
    }
}

ft_status ft_trie_build(ft_trie_key *keys, size_t count, ft_trie *trie) {
    *trie = (ft_trie){0};
    size_t capacity = 256, head = 0, tail = 0;
    pending *queue = ft_calloc(capacity, sizeof *queue, "a vocabulary's trie");
    if (queue == NULL) return FT_NO_MEMORY;
    ft_status status = grow(trie, 1024);
    if (status != FT_OK) goto done;
    if (count > 0) qsort(keys, count, sizeof *keys, by_bytes);
    int32_t start = 1;
    trie->nodes[0].parent = TAKEN;
    queue[tail++] = (pending){0, 0, count, 0};
    while (head < tail) {
        pending p = queue[head++];
        if (p.low < p.high && keys[p.low].length == p.depth) trie->nodes[p.node].value = keys[p.low++].value;
        if (p.low == p.high) continue;
        unsigned char bytes[256];
        int children = 0;
        for (size_t i = p.low; i < p.high; i++) {
            unsigned char c = (unsigned char)keys[i].text[p.depth];
            if (children == 0 || bytes[children - 1] != c) bytes[children++] = c;
        }
        int32_t base;
        FT_TRY_GOTO(place(trie, bytes, children, &start, &base), done);
        trie->nodes[p.node].base = base;
        if (tail + (size_t)children > capacity) {
            if (head > capacity / 2) { // most of the queue has been served: move the rest to the front
                memmove(queue, queue + head, (tail - head) * sizeof *queue);
                tail -= head, head = 0;
            } else {
                pending *more = ft_realloc(queue, 2 * capacity + 256, sizeof *queue, "a vocabulary's trie");
                if (more == NULL) {
                    status = FT_NO_MEMORY;
                    goto done;
                }
                queue = more, capacity = 2 * capacity + 256;
            }
        }
        size_t low = p.low;
        for (int c = 0; c < children; c++) {
            size_t high = low;
            while (high < p.high && (unsigned char)keys[high].text[p.depth] == bytes[c])
                high++;
            int32_t child = base + bytes[c];
            trie->nodes[child].parent = p.node;
            queue[tail++] = (pending){child, low, high, p.depth + 1};
            low = high;
        }
    }
done:
    free(queue);
    if (status != FT_OK) ft_trie_free(trie);
    return status;
}

void ft_trie_free(ft_trie *trie) {
    free(trie->nodes);
    *trie = (ft_trie){0};
}
