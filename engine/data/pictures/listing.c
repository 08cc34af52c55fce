#include "engine/data/pictures/listing.h"

#include "base/heap.h"
#include "base/json/json.h"

#include <stdlib.h>
#include <string.h>

ft_status ft_listing_open(const char *source, ft_listing *list) {
    *list = (ft_listing){.source = source};
    list->out = open_memstream(&list->text, &list->length);
    return list->out != NULL ? FT_OK : ft_fail_memory(0, "a list of pictures");
}

ft_status ft_listing_put(ft_listing *list, json_t *line) {
    char *text = ft_json_line(line);
    json_decref(line);
    if (text == NULL) return FT_NO_MEMORY;
    fprintf(list->out, "%s\n", text);
    free(text);
    list->files++;
    return FT_OK;
}

ft_status ft_listing_add(ft_listing *list, const char *name, const char *label) {
    json_t *line = json_pack("{s:s}", FT_LISTING_NAME, name);
    if (line == NULL) return ft_fail(FT_INVALID, list->source, "the name of a picture in it is no UTF-8");
    if (label != NULL && json_object_set_new(line, FT_LISTING_LABEL, json_string(label)) != 0) {
        json_decref(line);
        return ft_fail(FT_INVALID, list->source, "the name of a class in it is no UTF-8");
    }
    list->labelled = list->labelled || label != NULL;
    return ft_listing_put(list, line);
}

static ft_status none_in_it(const ft_listing *list) {
    ft_fail(FT_INVALID, list->source, "there are no pictures in it");
    ft_hint("files with the suffixes .jpg, .jpeg, .png and .webp are read");
    return FT_INVALID;
}

ft_status ft_listing_end(ft_listing *list, ft_status status, const ft_table_request *request, bool own, ft_table *table) {
    memset(table, 0, sizeof *table);
    const bool failed = ferror(list->out) != 0;
    if ((fclose(list->out) != 0 || failed) && status == FT_OK) status = ft_fail_memory(list->length, "a list of pictures");
    if (status == FT_OK && list->files == 0) status = none_in_it(list);
    if (status != FT_OK) {
        free(list->text);
        return status;
    }
    ft_table_request as = *request;
    as.format = FT_FORMAT_JSONL;
    as.text = FT_LISTING_NAME;
    as.pair = NULL;
    if (!own) {
        as.label = list->labelled ? FT_LISTING_LABEL : "";
        as.id = NULL;
    }
    FT_TRY(ft_table_parse(list->text, list->length, list->length + 1, list->source, &as, table));
    table->text_column = ""; // as those that are found by where they stand: files have others
    if (!own && table->label_column != NULL) table->label_column = "";
    return FT_OK;
}
