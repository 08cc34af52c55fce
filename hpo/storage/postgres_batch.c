// postgres_batch.c - what a group writes of one trial into one table, parameter by parameter, is one statement: a
// server works longer on a statement than on its rows. It waits until another statement is on its way, so the order of
// what is written stays.
#include "hpo/storage/postgres.h"

#include "hpo/storage/pyjson.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int statement_of(ft_sql id) {
    switch (id) {
    case FT_SQL_PARAM_SET: return FT_PQ_PARAMS_SET;
    case FT_SQL_USER_ATTRIBUTE_SET: return FT_PQ_USER_ATTRIBUTES_SET;
    case FT_SQL_SYSTEM_ATTRIBUTE_SET: return FT_PQ_SYSTEM_ATTRIBUTES_SET;
    default: return -1;
    }
}

bool ft_pq_batches(ft_sql id) { return statement_of(id) >= 0; }

// A row that is there already would be written twice by one statement, which PostgreSQL refuses.
static bool goes_on(const ft_pq_batch *b, ft_sql id, int64_t trial, const char *key) {
    if (b->count == FT_PQ_BATCH || b->id != id || b->trial != trial) return false;
    for (int i = 0; i < b->count; i++)
        if (strcmp(b->rows[i].key, key) == 0) return false;
    return true;
}

ft_status ft_pq_batch_add(ft_storage *storage, ft_sql id, int64_t trial, const char *key, const char *number,
                          const char *text) {
    ft_pq_batch *b = &storage->postgres->batch;
    if (b->count > 0 && !goes_on(b, id, trial, key)) FT_TRY(ft_pq_batch_send(storage));
    struct ft_pq_batch_row *row = &b->rows[b->count];
    row->key = ft_arena_strdup(&b->arena, key);
    row->text = ft_arena_strdup(&b->arena, text);
    row->number = number != NULL ? ft_arena_strdup(&b->arena, number) : NULL;
    if (row->key == NULL || row->text == NULL || (number != NULL && row->number == NULL)) return FT_NO_MEMORY;
    b->id = id;
    b->trial = trial;
    b->count++;
    return FT_OK;
}

void ft_pq_batch_forget(ft_postgres *p) {
    p->batch.count = 0;
    ft_arena_free(&p->batch.arena);
}

// {"a","b"}: one column of the rows as PostgreSQL writes an array.
static void write_array(FILE *out, const ft_pq_batch *b, size_t column) {
    putc('{', out);
    for (int i = 0; i < b->count; i++) {
        const char *text = *(const char *const *)((const char *)&b->rows[i] + column);
        if (i > 0) putc(',', out);
        if (text == NULL) {
            fputs("NULL", out);
            continue;
        }
        putc('"', out);
        for (; *text != '\0'; text++) {
            if (*text == '"' || *text == '\\') putc('\\', out);
            putc(*text, out);
        }
        putc('"', out);
    }
    putc('}', out);
}

static ft_status array_of(const ft_pq_batch *b, size_t column, char **out) {
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    write_array(stream.file, b, column);
    return ft_text_close(&stream, out);
}

static ft_status send_rows(ft_storage *storage, const ft_pq_batch *b) {
    char *keys = NULL, *numbers = NULL, *texts = NULL;
    const int statement = statement_of(b->id);
    ft_status status = array_of(b, offsetof(struct ft_pq_batch_row, key), &keys);
    if (status == FT_OK) status = array_of(b, offsetof(struct ft_pq_batch_row, text), &texts);
    if (status == FT_OK && b->id == FT_SQL_PARAM_SET)
        status = array_of(b, offsetof(struct ft_pq_batch_row, number), &numbers);
    if (status == FT_OK)
        status = numbers != NULL ? ft_pq_send(storage, statement, NULL, "ittt", b->trial, keys, texts, numbers)
                                 : ft_pq_send(storage, statement, NULL, "itt", b->trial, keys, texts);
    free(keys);
    free(numbers);
    free(texts);
    return status;
}

ft_status ft_pq_batch_send(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    if (p->batch.count == 0) return FT_OK;
    ft_pq_batch whole = p->batch; // sending it looks for one that waits
    p->batch.count = 0;
    p->batch.arena = (ft_arena){0};
    const ft_status status = send_rows(storage, &whole);
    ft_arena_free(&whole.arena);
    return status;
}
