#include "engine/tasks/token_answer.h"

#include "base/arena.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 9 };

typedef struct decided {
    int32_t *tag;      // [rows]
    ft_entity *entity; // [count] of rows
    int64_t count;
} decided;

static int32_t largest(const double *p, int count) {
    int32_t best = 0;
    for (int32_t k = 1; k < count; k++)
        if (p[k] > p[best]) best = k;
    return best;
}

static ft_status decide(const ft_token_answer *a, decided *d) {
    const size_t room = (size_t)a->rows + 1;
    *d = (decided){.tag = ft_calloc(room, sizeof *d->tag, "tags"), .entity = ft_calloc(room, sizeof *d->entity, "entities")};
    if (d->tag == NULL || d->entity == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < a->rows; i++) d->tag[i] = largest(a->probability + i * a->set->count, a->set->count);
    d->count = ft_entities(a->set, false, d->tag, a->rows, d->entity);
    return FT_OK;
}

static void forget(decided *d) {
    free(d->tag);
    free(d->entity);
}

static double score(const ft_token_answer *a, const decided *d, const ft_entity *e) {
    double sum = 0;
    for (int64_t i = e->first; i <= e->last; i++) sum += a->probability[i * a->set->count + d->tag[i]];
    return sum / (e->last - e->first + 1);
}

static const ft_word *first_word(const ft_token_answer *a, const ft_entity *e) { return &a->words->word[a->word[e->first]]; }
static const ft_word *last_word(const ft_token_answer *a, const ft_entity *e) { return &a->words->word[a->word[e->last]]; }

// Bytes [begin, end) of the text as people read it, valid UTF-8; malloc()ed. NULL: no memory.
static char *readable(const ft_token_answer *a, size_t begin, size_t end, size_t *length) {
    char *text;
    if (ft_utf8_repair(a->text + begin, end - begin, &text, length) != FT_OK) return NULL;
    for (size_t i = 0; i < *length; i++)
        if (text[i] == FT_WORD_END) text[i] = ' ';
    return text;
}

static json_t *stretch(const ft_token_answer *a, size_t begin, size_t end) {
    size_t length;
    char *text = readable(a, begin, end, &length);
    json_t *value = text != NULL ? json_stringn_nocheck(text, length) : NULL;
    free(text);
    return value;
}

static json_t *entity_json(const ft_token_answer *a, const decided *d, const ft_entity *e, bool *failed) {
    const ft_word *first = first_word(a, e), *last = last_word(a, e);
    json_t *object = json_object();
    ft_json_put(object, "label", json_string(a->set->types[e->type]), failed);
    ft_json_put(object, "start", json_integer((json_int_t)first->first), failed);
    ft_json_put(object, "end", json_integer((json_int_t)last->last), failed);
    ft_json_put(object, "text", stretch(a, first->begin, last->end), failed);
    ft_json_put(object, "score", ft_json_rounded(score(a, d, e), DIGITS), failed);
    return object;
}

ft_status ft_token_answer_put(const ft_token_answer *a, json_t *line, bool *failed) {
    decided d;
    const bool list = ft_text_is_words(a->text, a->length);
    ft_status status = decide(a, &d);
    json_t *entities = json_array();
    ft_json_put(line, "text", stretch(a, 0, a->length - list), failed);
    for (int64_t i = 0; status == FT_OK && i < d.count; i++) ft_json_append(entities, entity_json(a, &d, &d.entity[i], failed), failed);
    ft_json_put(line, "entities", entities, failed);
    forget(&d);
    return status;
}

const char *const ft_token_answer_heads[] = {"label", "start", "end", "score", "text", NULL};

ft_status ft_token_answer_write(const ft_token_answer *a, const char *id, ft_cell_writer *out) {
    decided d;
    ft_status status = decide(a, &d);
    for (int64_t i = 0; status == FT_OK && i < d.count; i++) {
        const ft_entity *e = &d.entity[i];
        const ft_word *first = first_word(a, e), *last = last_word(a, e);
        size_t length = 0;
        char *text = readable(a, first->begin, last->end, &length);
        if (text == NULL) {
            status = FT_NO_MEMORY;
            break;
        }
        if (id != NULL) ft_write_text(out, id);
        ft_write_text(out, a->set->types[e->type]);
        ft_write_number(out, (double)first->first, 0);
        ft_write_number(out, (double)last->last, 0);
        ft_write_number(out, score(a, &d, e), 4);
        ft_write_cell(out, text, length);
        ft_end_row(out);
        free(text);
    }
    forget(&d);
    return status;
}

void ft_token_answer_put_tags(const ft_token_answer *a, const int32_t *truth, json_t *line, bool *failed) {
    json_t *labels = json_array(), *predicted = json_array(), *scores = json_array();
    for (int64_t i = 0; i < a->rows; i++) {
        const double *p = a->probability + i * a->set->count;
        const int32_t best = largest(p, a->set->count);
        ft_json_append(labels, json_string(a->names[truth[i]]), failed);
        ft_json_append(predicted, json_string(a->names[best]), failed);
        ft_json_append(scores, ft_json_rounded(p[best], DIGITS), failed);
    }
    ft_json_put(line, "labels", labels, failed);
    ft_json_put(line, "predicted", predicted, failed);
    ft_json_put(line, "scores", scores, failed);
}
