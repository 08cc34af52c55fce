#include "engine/text/questions.h"

#include "base/utf8.h"
#include "engine/text/tokenizer_parts.h"
#include "engine/text/unicode/text_classes.h"

#include <stdlib.h>

enum { USUAL_OVERLAP = 128 };

static ft_status push(ft_token_ids *list, int32_t value) {
    FT_TRY(ft_token_ids_reserve(list, 1));
    list->ids[list->count++] = value;
    return FT_OK;
}

static ft_status put_token(ft_question_tokens *out, int32_t id, int32_t type, int32_t begin, int32_t end) {
    FT_TRY(push(&out->ids, id));
    FT_TRY(push(&out->types, type));
    FT_TRY(push(&out->begin, begin));
    return push(&out->end, end);
}

// With tokens [begin, end) of the passage.
static ft_status put_sequence(const ft_template *frame, size_t begin, size_t end, ft_question_tokens *out) {
    const size_t start = out->ids.count;
    for (size_t i = 0; i < frame->count; i++) {
        const ft_template_item *item = &frame->items[i];
        if (item->id >= 0) {
            FT_TRY(put_token(out, item->id, item->type, -1, -1));
        } else if (item->id == FT_TEMPLATE_PAIR) {
            for (size_t k = begin; k < end; k++)
                FT_TRY(put_token(out, out->passage.ids.ids[k], item->type, out->passage.begin.ids[k], out->passage.end.ids[k]));
        } else {
            for (size_t k = 0; k < out->question.count; k++) FT_TRY(put_token(out, out->question.ids[k], item->type, -1, -1));
        }
    }
    if (out->ids.count - start > INT32_MAX) return ft_fail(FT_INVALID, NULL, "a passage of more than %d tokens", INT32_MAX);
    return push(&out->lengths, (int32_t)(out->ids.count - start));
}

static size_t usual_overlap(int max_length, size_t window) {
    size_t overlap = USUAL_OVERLAP;
    if ((size_t)max_length / 3 < overlap) overlap = (size_t)max_length / 3;
    return window / 2 < overlap ? window / 2 : overlap;
}

static ft_status check_window(const ft_long_text *rule, size_t question, size_t room, int max_length) {
    const size_t least = question + 1 + (rule->overlap > 0 ? (size_t)rule->overlap : 0), specials = (size_t)max_length - room;
    if (room >= least) return FT_OK;
    ft_fail(FT_INVALID, NULL, "the question has %zu tokens, which leaves %zu of data.max_length = %d for the passage", question,
            question < room ? room - question : 0, max_length);
    if (question < room) ft_hint("windows that overlap by %d tokens need data.max_length = %zu; data.truncation = windows(%zu) would do", rule->overlap,
                                 least + specials, room - question - 1);
    else ft_hint("data.max_length = %zu is the least that would do", least + specials);
    return FT_INVALID;
}

static size_t white_in_front(const char *text, size_t length) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length, *next;
    while (p < end && ((next = p), ft_char_pattern(ft_utf8_next(&next)) == FT_PATTERN_SPACE)) p = next;
    return (size_t)(p - (const unsigned char *)text);
}

ft_status ft_tokenizer_encode_question(const ft_tokenizer *t, const char *question, size_t question_length, const char *passage,
                                       size_t passage_length, int max_length, const ft_long_text *rule, ft_question_tokens *out) {
    ft_token_ids *const lists[] = {&out->ids, &out->types, &out->lengths, &out->begin, &out->end, &out->question};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) lists[i]->count = 0;
    if (ft_utf8_valid_prefix(question, question_length) != question_length) return ft_fail(FT_INVALID, NULL, "the question is not valid UTF-8");
    const size_t white = white_in_front(question, question_length);
    size_t room;
    FT_TRY(ft_encode_room(t, true, max_length, &room));
    FT_TRY(ft_encode_text(t, question + white, question_length - white, SIZE_MAX, &out->question));
    FT_TRY(ft_tokenizer_encode_offsets(t, passage, passage_length, &out->passage));
    const size_t count = out->passage.ids.count;
    if (out->question.count < room && room - out->question.count >= count) return put_sequence(&t->pair, 0, count, out);
    FT_TRY(check_window(rule, out->question.count, room, max_length));
    const size_t window = room - out->question.count, overlap = rule->overlap >= 0 ? (size_t)rule->overlap : usual_overlap(max_length, window);
    for (size_t at = 0, end = 0; end < count; at += window - overlap) {
        end = count - at > window ? at + window : count;
        FT_TRY(put_sequence(&t->pair, at, end, out));
    }
    return FT_OK;
}

void ft_question_tokens_free(ft_question_tokens *tokens) {
    free(tokens->ids.ids);
    free(tokens->types.ids);
    free(tokens->lengths.ids);
    free(tokens->begin.ids);
    free(tokens->end.ids);
    free(tokens->question.ids);
    ft_offsets_free(&tokens->passage);
    *tokens = (ft_question_tokens){.ids = {0}};
}
