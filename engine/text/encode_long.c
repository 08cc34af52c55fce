// encode_long.c - a text or a pair of which not everything may fit to sequences, by a rule (long_text.h).
#include "engine/text/tokenizer_parts.h"

#include "engine/text/long_text.h"

#include <stdlib.h>
#include <string.h>

static size_t overlap_of(const ft_long_text *rule, size_t window) {
    return rule->overlap >= 0 ? (size_t)rule->overlap : window / 4;
}

ft_status ft_long_text_check(const ft_long_text *rule, const ft_tokenizer *t, bool paired, int max_length) {
    if (rule->kind != FT_LONG_WINDOWS || max_length <= 0) return FT_OK;
    size_t room;
    FT_TRY(ft_encode_room(t, paired, max_length, &room));
    size_t least = paired ? room - room / 2 : room; // of tokens that a window is sure to have for the longer text
    if (least > overlap_of(rule, least)) return FT_OK;
    return ft_fail(FT_INVALID, "data.truncation",
                   "windows of %d tokens, of which %zu are special%s, cannot overlap by %zu: at most %zu tokens", max_length,
                   (size_t)max_length - room, paired ? " and half may be the other text's" : "", overlap_of(rule, least),
                   least > 0 ? least - 1 : 0);
}

// ---- sequences ----------------------------------------------------------------------------------------------------

// Tokens [begin, end) of a text. Of each text at most two stretches stand in a sequence.
typedef struct stretch {
    size_t begin, end;
} stretch;
typedef struct choice {
    stretch part[2];
} choice;

// `room` of `count` tokens.
static choice choose(ft_long_text_kind kind, size_t count, size_t room) {
    if (count <= room) return (choice){{{0, count}, {0, 0}}};
    if (kind == FT_LONG_TAIL) return (choice){{{count - room, count}, {0, 0}}};
    if (kind != FT_LONG_HEAD_TAIL) return (choice){{{0, room}, {0, 0}}};
    size_t head = (room + 2) / 4; // to the nearest
    return (choice){{{0, head}, {count - (room - head), count}}};
}

static ft_status append_item(const ft_template_item *item, const ft_token_ids texts[2], const choice kept[2], ft_token_ids *out) {
    if (item->id >= 0) {
        FT_TRY(ft_token_ids_reserve(out, 1));
        out->ids[out->count++] = item->id;
        return FT_OK;
    }
    int which = item->id == FT_TEMPLATE_PAIR;
    for (int k = 0; k < 2; k++) {
        stretch s = kept[which].part[k];
        if (s.begin == s.end) continue;
        FT_TRY(ft_token_ids_reserve(out, s.end - s.begin));
        memcpy(out->ids + out->count, texts[which].ids + s.begin, (s.end - s.begin) * sizeof *out->ids);
        out->count += s.end - s.begin;
    }
    return FT_OK;
}

static ft_status append_sequence(const ft_template *frame, const ft_token_ids texts[2], const choice kept[2], ft_token_ids *out,
                                 ft_token_ids *types, ft_token_ids *lengths) {
    size_t begin = out->count;
    for (size_t i = 0; i < frame->count; i++) {
        size_t before = out->count;
        FT_TRY(append_item(&frame->items[i], texts, kept, out));
        if (types == NULL) continue;
        FT_TRY(ft_token_ids_reserve(types, out->count - before));
        for (size_t k = before; k < out->count; k++) types->ids[types->count++] = frame->items[i].type;
    }
    if (out->count - begin > INT32_MAX) return ft_fail(FT_INVALID, NULL, "this text has more than %d tokens", INT32_MAX);
    FT_TRY(ft_token_ids_reserve(lengths, 1));
    lengths->ids[lengths->count++] = (int32_t)(out->count - begin);
    return FT_OK;
}

static ft_status append_windows(const ft_template *frame, const ft_token_ids texts[2], const size_t room[2], const ft_long_text *rule,
                                ft_token_ids *out, ft_token_ids *types, ft_token_ids *lengths) {
    const int longer = texts[0].count > texts[1].count ? 0 : 1;
    const size_t count = texts[longer].count, window = room[longer], overlap = overlap_of(rule, window);
    if (overlap >= window) return ft_fail(FT_INVALID, "data.truncation", "windows of %zu tokens cannot overlap by %zu", window, overlap);
    choice kept[2];
    kept[!longer] = choose(FT_LONG_HEAD, texts[!longer].count, room[!longer]);
    for (size_t at = 0, end = 0; end < count; at += window - overlap) {
        end = count - at > window ? at + window : count;
        kept[longer] = (choice){{{at, end}, {0, 0}}};
        FT_TRY(append_sequence(frame, texts, kept, out, types, lengths));
    }
    return FT_OK;
}

ft_status ft_tokenizer_encode_long(const ft_tokenizer *t, const char *text, size_t length, const char *pair, size_t pair_length,
                                   int max_length, const ft_long_text *rule, ft_token_ids *out, ft_token_ids *types,
                                   ft_token_ids *lengths, bool *whole) {
    const ft_template *frame = pair != NULL ? &t->pair : &t->single;
    const size_t before[3] = {out->count, types != NULL ? types->count : 0, lengths->count};
    ft_token_ids texts[2] = {{0}, {0}};
    size_t all, room[2] = {0, 0};
    ft_status status = ft_encode_room(t, pair != NULL, max_length, &all);
    if (status == FT_OK) status = ft_encode_text(t, text, length, SIZE_MAX, &texts[0]);
    if (status == FT_OK && pair != NULL) status = ft_encode_text(t, pair, pair_length, SIZE_MAX, &texts[1]);
    if (status == FT_OK) {
        room[0] = texts[0].count, room[1] = texts[1].count;
        *whole = room[0] + room[1] <= all;
        status = ft_encode_share(room, all, FT_TRUNCATE_LONGEST_FIRST);
    }
    if (status == FT_OK && rule->kind == FT_LONG_WINDOWS && !*whole) {
        status = append_windows(frame, texts, room, rule, out, types, lengths);
    } else if (status == FT_OK) {
        const choice kept[2] = {choose(rule->kind, texts[0].count, room[0]), choose(rule->kind, texts[1].count, room[1])};
        status = append_sequence(frame, texts, kept, out, types, lengths);
    }
    if (status != FT_OK) {
        out->count = before[0], lengths->count = before[2];
        if (types != NULL) types->count = before[1];
    }
    free(texts[0].ids);
    free(texts[1].ids);
    return status;
}
