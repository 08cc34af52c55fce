// shards.h - tar archives of samples as WebDataset has them, as a table: pictures are read from where they lie.
//
// The files of a sample stand one behind the other and share a key: what is in front of the first dot of their names. Its picture is the one with
// the suffix of a picture; its label what is in KEY.cls, or a value of the JSON object in KEY.json. Files with other suffixes, with none and those
// that begin with a dot are passed over. Samples are in the order of the shards, and there in that of the archive.
#ifndef FT_SHARDS_H
#define FT_SHARDS_H

#include "engine/data/tables/table.h"

typedef struct ft_sample {
    const char *key;
    const char *name;             // of its picture: that of the shard, '/' and that in the archive
    int64_t shard, offset, size;  // where its bytes are
    const char *where;            // "shard: key", for messages
    const char *label;            // what is in KEY.cls, without blanks around it; NULL: there is none
    const char *json;             // what is in KEY.json; NULL: there is none
    size_t json_length;
} ft_sample; // lives until the visit is over

// By its name an archive, or several by {000..012} in it (config/data_path.h)?
bool ft_shards_are(const char *source);
// How many bytes of it stand in front of the names of archives: their folder, with its '/'.
size_t ft_shards_folder(const char *source);
// The path of an archive, in the arena.
ft_status ft_shards_path(const char *source, int64_t shard, ft_arena *arena, const char **path);
// labels: KEY.cls and KEY.json are read. Whatever `visit` returns ends the walk unless it is FT_OK. FT_INVALID with archive and key: those of tar.h,
// a sample with two pictures or labels, with a label and no picture, whose files do not stand together.
typedef ft_status (*ft_visit_sample)(void *context, const ft_sample *sample);
ft_status ft_shards_walk(const char *source, bool labels, ft_visit_sample visit, void *context);

// The columns of the table are the name of the picture and, as the request says, a label and an id: "cls" and the members of KEY.json, of which the
// first sample has all. With no name said the label is cls where it is there, else a member with a usual name.
ft_status ft_shards_read(const char *source, const ft_table_request *request, ft_table *table);

#endif
