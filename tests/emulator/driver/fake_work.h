// fake_work.h - what queues of the fake driver are made of: fake_streams.c fills and empties them, fake_graphs.c keeps
// work to replay it.
#ifndef FT_FAKE_WORK_H
#define FT_FAKE_WORK_H

#include "tests/emulator/driver/fake_state.h"

typedef struct work {
    struct work *next;
    enum { UPLOAD, DOWNLOAD, COPY, FILL, LAUNCH, RECORD, WAIT, REPLAY } kind;
    char *to; // device or host, as `kind` has it
    const char *from;
    size_t bytes;
    uint64_t digest; // of an upload's bytes when it was queued
    bool recorded;   // part of a graph: an upload reads what is there when it runs
    unsigned char byte;
    bool (*run)(void *job);
    void (*drop)(void *job);
    void *job;
    ft_cu_event event;
    uint64_t version; // which recording of the event
    ft_cu_graph_exec graph;
} work;

struct ft_cu_stream_object {
    struct ft_cu_stream_object *next; // made before this one
    ft_cu_context context;
    work *first, **last;
    ft_cu_graph captured; // being recorded; NULL: work is queued
    bool broken;          // a call that capture forbids was made
};

struct ft_cu_event_object {
    struct ft_cu_event_object *next;
    ft_cu_context context;
    uint64_t recorded, done; // recordings queued, and the last of them that ran
    size_t users;            // queued work that names it
    bool destroyed;
    ft_cu_stream captured_in; // its last recording is part of a graph
    bool timed;
    double time; // on the fake clock, of the last recording that ran
};

// fake_streams.c
ft_cu_stream fake_streams(void); // the first of the list
bool fake_is_stream(ft_cu_stream stream);
void fake_append(ft_cu_stream stream, work value);
void fake_run(const work *w, int device);
// fake_graphs.c
void fake_graph_add(ft_cu_graph graph, work value);
void fake_graph_run(ft_cu_graph_exec graph, int device);
void fake_graph_count(ft_cu_graph_exec graph, int change); // of launches that are queued
void fake_graphs_lose(void);
// Of a call that capture forbids, on any stream: it breaks what is being captured. 0: nothing is.
int fake_capture_breaks(void);

#endif
