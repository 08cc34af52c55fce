// locate.h - where a study lives. People name it (`baseline`), point at its directory (`studies/baseline`, also one
// elsewhere) or at a database (`--storage sqlite:///FILE`), and mean the same three things: a name in a database, the
// file, and the directory of its runs.
//
//     given                                  name        file                      directory
//     baseline                               baseline    studies/baseline/study.db studies/baseline
//     old/studies/baseline                   baseline    old/studies/baseline/...  old/studies/baseline
//     baseline, --storage sqlite:///all.db   baseline    all.db                    studies/baseline
//     --storage sqlite:///old/b/study.db     NULL        old/b/study.db            old/b
//     baseline, --storage postgresql://..    baseline    none                      studies/baseline
//     baseline, --storage journal:all.log    baseline    all.log                   studies/baseline
//
// Relative paths are relative to the working directory and stay so.
#ifndef FT_HPO_LOCATE_H
#define FT_HPO_LOCATE_H

#include "hpo/storage/storage.h"

typedef struct ft_study_place {
    const char *name;      // NULL: the only study of the file
    const char *url;       // sqlite:///PATH or an address, for ft_storage_open alone: it may hold a password
    const char *shown;     // the same without, for people and files
    const char *path;      // the database file; of a server `shown`
    bool remote;           // it is a server, not a file
    const char *scheme;    // of a file: what stands before its path
    const char *directory; // config.ini, best.ini, trials/; NULL while the name is not known
} ft_study_place;          // texts live in the arena

// Nothing has to exist yet. `study` and `storage` may be NULL (not given), but not both. FT_INVALID for names that are
// no directory's (empty, ".", with a '/' beside --storage, control characters, beyond 200 bytes) and for URLs other
// than SQLite's and PostgreSQL's.
ft_status ft_study_locate(const char *study, const char *storage, ft_arena *arena, ft_study_place *place);

// The same for a study that must exist, opened with FT_STORAGE_READ or FT_STORAGE_WRITE. With neither given, the only
// one in studies/. FT_INVALID, with the nearest name or the list of those there are, when there is no such study. On
// success `place` is complete; close *opened, then *file.
ft_status ft_study_open(const char *study, const char *storage, int flags, ft_arena *arena, ft_study_place *place,
                        ft_storage **file, ft_stored **opened);

// The names of the directories in studies/ that hold a study.db, sorted; none when there is no studies/.
ft_status ft_study_names(ft_arena *arena, const char ***names, int *count);

// FT_INVALID for `word`, which should have been one of `names`: "there is no WHAT 'word'" with the nearest of them or,
// when none is near, the first few, as a hint.
ft_status ft_no_such(const char *where, const char *what, const char *word, int count, const char *const *names);

#endif
