// event_file.h - TensorBoard's event files: records of Protocol Buffers one behind the other, each with its length and
// checksums, so that readers follow a file that grows and pass over a tail that a kill has left.
//
//     u64 length | u32 mask(crc32c(those 8 bytes)) | data | u32 mask(crc32c(data))          little endian
//     mask(c) = (c >> 15 | c << 17) + 0xa282ead8
#ifndef FT_TRACK_EVENT_FILE_H
#define FT_TRACK_EVENT_FILE_H

#include "base/status.h"
#include "engine/track/protobuf.h"

typedef struct ft_event_file ft_event_file;

// A new file in the directory, which is made if it is not there; its first record says the version of the format.
// Readers take the files of a directory by name: this one comes behind all that are there. *follows: there were any.
ft_status ft_event_file_open(const char *directory, bool *follows, ft_event_file **file);
// Appends an event of the present moment and frees it: `what` with its field number in Event, 5 a Summary, 7 a
// SessionLog.
ft_status ft_event_file_add(ft_event_file *file, int64_t step, int field, ft_proto *what);
ft_status ft_event_file_flush(ft_event_file *file); // what was added is in the file
ft_status ft_event_file_close(ft_event_file *file); // NULL is fine

uint32_t ft_crc32c(const void *data, size_t length);

#endif
