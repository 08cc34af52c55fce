#include "engine/data/question_set.h"

#include "base/arena.h"
#include "base/spill.h"

#include <stdlib.h>
#include <string.h>

ft_status ft_question_set_open(int64_t examples, ft_question_set **out) {
    ft_question_set *s = ft_calloc(1, sizeof *s, "questions");
    if (s == NULL) return FT_NO_MEMORY;
    *out = s;
    FT_SPILL_GROW(s->passage, examples + 1, "questions");
    FT_SPILL_GROW(s->passage_length, examples + 1, "questions");
    FT_SPILL_GROW(s->answer, examples + 1, "questions");
    FT_SPILL_GROW(s->answers, examples + 1, "questions");
    return FT_OK;
}

static ft_status put(ft_question_set *s, const char *text, size_t length, int64_t *at) {
    const int64_t used = s->used + (int64_t)length + 1;
    if (used > s->text_room) {
        s->text_room = used + used / 4 + 4096;
        FT_SPILL_GROW(s->text, s->text_room, "questions");
    }
    *at = s->used;
    if (length > 0) memcpy(s->text + s->used, text, length);
    s->text[used - 1] = '\0';
    s->used = used;
    return FT_OK;
}

ft_status ft_question_set_passage(ft_question_set *s, int64_t i, const char *passage, size_t length) {
    s->answers[i] = 0;
    s->passage_length[i] = (int64_t)length;
    if (i > 0 && s->passage_length[i - 1] == (int64_t)length && memcmp(ft_question_passage(s, i - 1), passage, length) == 0)
        s->passage[i] = s->passage[i - 1];
    else FT_TRY(put(s, passage, length, &s->passage[i]));
    s->answer[i] = s->used;
    return FT_OK;
}

ft_status ft_question_set_answer(ft_question_set *s, int64_t i, const char *answer, size_t length) {
    int64_t at;
    s->answers[i]++;
    return put(s, answer, length, &at);
}

ft_status ft_question_set_tokens(ft_question_set *s, int64_t first, const int32_t *begin, const int32_t *end, size_t count) {
    const int64_t tokens = first + (int64_t)count;
    if (tokens > s->token_room) {
        s->token_room = tokens + tokens / 4 + 64;
        FT_SPILL_GROW(s->begin, s->token_room, "questions");
        FT_SPILL_GROW(s->end, s->token_room, "questions");
    }
    memcpy(s->begin + first, begin, count * sizeof *begin);
    memcpy(s->end + first, end, count * sizeof *end);
    return FT_OK;
}

void ft_question_set_settle(ft_question_set *s) {
    if (s == NULL) return;
    ft_spill_settle(s->begin);
    ft_spill_settle(s->end);
    ft_spill_settle(s->text);
    ft_spill_settle(s->passage);
    ft_spill_settle(s->passage_length);
    ft_spill_settle(s->answer);
    ft_spill_settle(s->answers);
}

size_t ft_question_set_host_bytes(const ft_question_set *s) {
    if (s == NULL) return 0;
    return sizeof *s + ft_spill_host_bytes(s->begin) + ft_spill_host_bytes(s->end) + ft_spill_host_bytes(s->text) + ft_spill_host_bytes(s->passage) +
           ft_spill_host_bytes(s->passage_length) + ft_spill_host_bytes(s->answer) + ft_spill_host_bytes(s->answers);
}

void ft_question_set_free(ft_question_set *s) {
    if (s == NULL) return;
    ft_spill_free(s->begin);
    ft_spill_free(s->end);
    ft_spill_free(s->text);
    ft_spill_free(s->passage);
    ft_spill_free(s->passage_length);
    ft_spill_free(s->answer);
    ft_spill_free(s->answers);
    free(s);
}
