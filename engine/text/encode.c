// encode.c - text to ids: cut out added tokens, normalise and encode what is between them, truncate, add the special
// tokens.
#include "engine/text/tokenizer_parts.h"

#include "base/utf8.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static ft_status push(ft_token_ids *out, int32_t id) {
    FT_TRY(ft_token_ids_reserve(out, 1));
    out->ids[out->count++] = id;
    return FT_OK;
}

// A stretch of text without raw added tokens.
static ft_status plain(ft_encoder *e, const char *text, size_t length, bool first) {
    const ft_tokenizer *t = e->t;
    const char *form;
    size_t count;
    bool kept;
    if (t->normalized.count > 0) { // they may stand anywhere in the normalised form, so all of it is needed
        FT_TRY(ft_pipeline_run(&t->normalizer, text, length, &e->text, &form, &count, &kept));
        ft_added_cursor cursor = {0};
        while (cursor.done < count && e->out->count < e->limit) {
            ft_added_match m = ft_added_next(&t->normalized, form, count, &cursor);
            if (m.start < m.end)
                FT_TRY(ft_encode_piece(e, form + m.start, m.end - m.start, first && kept && m.start == 0));
            if (m.id >= 0) FT_TRY(push(e->out, m.id));
        }
        return FT_OK;
    }
    // In stretches that end before a space, where that is the same: bounded memory, and nothing is done beyond the
    // limit.
    for (size_t at = 0, next; at < length && e->out->count < e->limit; at = next) {
        next = t->stretches && length - at > 2048 ? at + 2048 : length;
        while (next < length && text[next] != ' ')
            next++;
        FT_TRY(ft_pipeline_run(&t->normalizer, text + at, next - at, &e->text, &form, &count, &kept));
        FT_TRY(ft_encode_piece(e, form, count, first && kept && at == 0));
    }
    return FT_OK;
}

static ft_status encode_valid(ft_encoder *e, const char *text, size_t length) {
    ft_added_cursor cursor = {0};
    while (cursor.done < length && e->out->count < e->limit) {
        ft_added_match m = ft_added_next(&e->t->raw, text, length, &cursor);
        if (m.start < m.end) FT_TRY(plain(e, text + m.start, m.end - m.start, m.start == 0));
        if (m.id >= 0) FT_TRY(push(e->out, m.id));
    }
    return FT_OK;
}

ft_status ft_encode_text(const ft_tokenizer *t, const char *text, size_t length, size_t most, ft_token_ids *out) {
    char first[2][3072]; // most texts need no heap
    ft_encoder e;
    e.t = t, e.out = out, e.limit = most < SIZE_MAX - out->count ? out->count + most : SIZE_MAX;
    for (size_t i = 0; i < 2; i++)
        e.text.buffers[i] = (ft_text_buffer){.data = first[i], .capacity = sizeof first[i], .kept = true};
    e.prefixed = (ft_text_buffer){0};
    e.unigram.more = NULL, e.unigram.capacity = 0, e.unigram.ends = NULL;
    e.spans = NULL;
    ft_status status;
    if (ft_utf8_valid_prefix(text, length) == length)
        status = encode_valid(&e, text, length);
    else {
        char *repaired;
        status = ft_utf8_repair(text, length, &repaired, &length);
        if (status == FT_OK) {
            status = encode_valid(&e, repaired, length);
            free(repaired);
        }
    }
    ft_text_release(&e.text.buffers[0]);
    ft_text_release(&e.text.buffers[1]);
    ft_text_release(&e.prefixed);
    free(e.unigram.more);
    return status;
}

static ft_status fill_types(const ft_template *frame, const size_t lengths[2], ft_token_ids *types) {
    for (size_t i = 0; i < frame->count; i++) {
        const ft_template_item *item = &frame->items[i];
        size_t count = item->id >= 0 ? 1 : lengths[item->id == FT_TEMPLATE_PAIR];
        FT_TRY(ft_token_ids_reserve(types, count));
        for (; count > 0; count--)
            types->ids[types->count++] = item->type;
    }
    return FT_OK;
}

// One text: encoded where it is to stand.
static ft_status encode_single(const ft_tokenizer *t, const char *text, size_t length, size_t room, ft_token_ids *out,
                               size_t lengths[2]) {
    for (size_t i = 0; i < t->single.count; i++) {
        int32_t id = t->single.items[i].id;
        if (id >= 0) {
            FT_TRY(push(out, id));
            continue;
        }
        size_t begin = out->count;
        FT_TRY(ft_encode_text(t, text, length, room, out));
        if (out->count - begin > room) out->count = begin + room;
        lengths[0] = out->count - begin;
    }
    return FT_OK;
}

ft_status ft_encode_share(size_t lengths[2], size_t room, ft_truncation how) {
    if (lengths[0] + lengths[1] <= room) return FT_OK;
    if (how != FT_TRUNCATE_LONGEST_FIRST) {
        int cut = how == FT_TRUNCATE_ONLY_SECOND;
        if (lengths[!cut] >= room)
            return ft_fail(FT_INVALID, NULL,
                           "the %s text alone has %zu ids, which leaves nothing of max_length for the %s",
                           cut ? "first" : "second", lengths[!cut], cut ? "second" : "first");
        lengths[cut] = room - lengths[!cut];
        return FT_OK;
    }
    int longer = lengths[0] > lengths[1] ? 0 : 1;
    size_t small = lengths[!longer], large = small;
    if (small <= room && room - small > small) large = room - small;
    if (small + large > room) small = room / 2, large = room - small;
    lengths[!longer] = small, lengths[longer] = large;
    return FT_OK;
}

static ft_status encode_both(const ft_tokenizer *t, const char *text, size_t length, const char *pair,
                             size_t pair_length, size_t room, ft_truncation how, ft_token_ids *out, size_t lengths[2]) {
    ft_token_ids parts[2] = {{0}, {0}};
    // In full: which of two long texts is the longer one decides about the odd id.
    ft_status status = ft_encode_text(t, text, length, SIZE_MAX, &parts[0]);
    if (status == FT_OK) status = ft_encode_text(t, pair, pair_length, SIZE_MAX, &parts[1]);
    if (status == FT_OK) {
        lengths[0] = parts[0].count, lengths[1] = parts[1].count;
        status = ft_encode_share(lengths, room, how);
    }
    if (status == FT_OK) status = ft_token_ids_reserve(out, t->pair.specials + lengths[0] + lengths[1]);
    for (size_t i = 0; status == FT_OK && i < t->pair.count; i++) {
        int32_t id = t->pair.items[i].id;
        int which = id == FT_TEMPLATE_PAIR;
        if (id >= 0)
            out->ids[out->count++] = id;
        else if (lengths[which] > 0) {
            memcpy(out->ids + out->count, parts[which].ids, lengths[which] * sizeof *out->ids);
            out->count += lengths[which];
        }
    }
    free(parts[0].ids);
    free(parts[1].ids);
    return status;
}

ft_status ft_encode_room(const ft_tokenizer *t, bool paired, int max_length, size_t *room) {
    const size_t around = (paired ? &t->pair : &t->single)->specials;
    *room = max_length > 0 ? (size_t)max_length - around : SIZE_MAX;
    if (max_length <= 0 || (size_t)max_length >= around) return FT_OK;
    return ft_fail(FT_INVALID, NULL, "max_length %d leaves no room for the %zu special tokens", max_length, around);
}

ft_status ft_tokenizer_encode_pair(const ft_tokenizer *t, const char *text, size_t length, const char *pair,
                                   size_t pair_length, int max_length, ft_truncation truncation, ft_token_ids *out,
                                   ft_token_ids *types) {
    const ft_template *frame = pair != NULL ? &t->pair : &t->single;
    size_t begin = out->count, types_begin = types != NULL ? types->count : 0, room, lengths[2] = {0};
    FT_TRY(ft_encode_room(t, pair != NULL, max_length, &room));
    ft_status status = pair != NULL ? encode_both(t, text, length, pair, pair_length, room, truncation, out, lengths)
                                    : encode_single(t, text, length, room, out, lengths);
    if (status == FT_OK && types != NULL) status = fill_types(frame, lengths, types);
    if (status != FT_OK) { // nothing is appended by a call that fails
        out->count = begin;
        if (types != NULL) types->count = types_begin;
    }
    return status;
}

ft_status ft_tokenizer_encode(const ft_tokenizer *t, const char *text, size_t length, int max_length,
                              ft_token_ids *out) {
    return ft_tokenizer_encode_pair(t, text, length, NULL, 0, max_length, FT_TRUNCATE_LONGEST_FIRST, out, NULL);
}

bool ft_tokenizer_closes(const ft_tokenizer *t) { return t->single.count > 0 && t->single.items[t->single.count - 1].id >= 0; }

ft_status ft_tokenizer_encode_bare(const ft_tokenizer *t, const char *text, size_t length, ft_token_ids *out) {
    const size_t begin = out->count;
    const ft_status status = ft_encode_text(t, text, length, SIZE_MAX, out);
    if (status != FT_OK) out->count = begin;
    return status;
}
