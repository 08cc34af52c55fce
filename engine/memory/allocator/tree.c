// tree.c - free blocks in order of size, segment number and offset: a treap over the blocks themselves.
// Finding a best fit, entering and leaving take O(log n) steps; the random priorities shape the tree, never an answer.
#include "engine/memory/allocator/internal.h"

bool ft_block_before(const ft_block *a, const ft_block *b) {
    if (a->size != b->size) return a->size < b->size;
    if (a->segment != b->segment) return a->segment->number < b->segment->number;
    return a->offset < b->offset;
}

void ft_tree_insert(ft_block **root, ft_block *block) {
    while (*root != NULL && (*root)->priority >= block->priority)
        root = ft_block_before(block, *root) ? &(*root)->left : &(*root)->right;
    ft_block *below = *root, **before = &block->left, **after = &block->right;
    *root = block;
    while (below != NULL) { // what was here is dealt out to the two sides of the new block
        if (ft_block_before(below, block)) {
            *before = below;
            before = &below->right;
            below = below->right;
        } else {
            *after = below;
            after = &below->left;
            below = below->left;
        }
    }
    *before = *after = NULL;
}

void ft_tree_remove(ft_block **root, ft_block *block) {
    while (*root != block)
        root = ft_block_before(block, *root) ? &(*root)->left : &(*root)->right;
    ft_block *left = block->left, *right = block->right;
    while (left != NULL && right != NULL) {
        if (left->priority >= right->priority) {
            *root = left;
            root = &left->right;
            left = left->right;
        } else {
            *root = right;
            root = &right->left;
            right = right->left;
        }
    }
    *root = left != NULL ? left : right;
    block->left = block->right = NULL;
}

ft_block *ft_tree_at_least(ft_block *root, size_t size) {
    ft_block *best = NULL;
    while (root != NULL) {
        if (root->size >= size) {
            best = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return best;
}
