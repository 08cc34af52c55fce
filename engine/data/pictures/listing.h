// listing.h - a list of pictures that stands in no file, as a table: JSON lines in memory, read as those of a file are.
//
//     FT_TRY(ft_listing_open(source, &list));
//     ... status = ft_listing_add(&list, name, label);     // for each
//     return ft_listing_end(&list, status, &request, table);
#ifndef FT_LISTING_H
#define FT_LISTING_H

#include "engine/data/tables/table.h"

#include <jansson.h>

#define FT_LISTING_NAME "file_name"
#define FT_LISTING_LABEL "label"

typedef struct ft_listing {
    const char *source; // for messages
    FILE *out;
    char *text;
    size_t length;
    int64_t files;
    bool labelled; // some have a label: then all must
} ft_listing;

ft_status ft_listing_open(const char *source, ft_listing *list);
// One more. label NULL: none. FT_INVALID: a name that is no UTF-8.
ft_status ft_listing_add(ft_listing *list, const char *name, const char *label);
// One more with columns of its own, FT_LISTING_NAME among them. Takes `line`, also NULL (then FT_NO_MEMORY).
ft_status ft_listing_put(ft_listing *list, json_t *line);
// Closes the list; where `status` is FT_OK, its table. The request's columns are those of ft_listing_add, and are none by which files would be
// read; with `own` they are the request's, and the text column alone is none.
ft_status ft_listing_end(ft_listing *list, ft_status status, const ft_table_request *request, bool own, ft_table *table);

#endif
