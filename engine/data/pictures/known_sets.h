// known_sets.h - flowers102 and CUB-200-2011 exactly as they are downloaded, as tables of their official splits.
#ifndef FT_KNOWN_SETS_H
#define FT_KNOWN_SETS_H

#include "engine/config/data_path.h"
#include "engine/data/tables/table.h"

// flowers102: jpg/image_00001.jpg, ..., imagelabels.mat (1 to 102), setid.mat (trnid, valid, tstid). Its classes have no names there: they are
// called 001 to 102. CUB-200-2011: images.txt (id, path), image_class_labels.txt (id, class), train_test_split.txt (id, 1 for train), classes.txt
// (class, name), images/.
// split: "train", "validation" (of flowers102), "test"; NULL is FT_INVALID with those that there are. Rows are in the order of the files, of
// flowers102 in that of the numbers of pictures; names are relative to the directory. FT_INVALID with file and line: files are missing (all of
// them are named), or do not fit together.
ft_status ft_known_set_read(const ft_known_set *set, const char *directory, const char *split, const ft_table_request *request, ft_table *table);

#endif
