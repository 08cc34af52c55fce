// fake_graphs.c - stream capture and graphs of the fake driver: work is kept instead of queued, and each launch of the
// graph replays it in its stream's turn, reading memory as it is then. What capture forbids - waiting, taking or freeing
// memory, copies that may wait, leaving the stream - is refused and breaks the capture, as the documentation has it for the
// mode that looks at the thread's own calls.
#include "tests/emulator/driver/fake_work.h"

#include <stdlib.h>

typedef struct nodes { // of a graph and of what was instantiated from it
    size_t users;
    work *first, **last;
} nodes;

struct ft_cu_graph_object {
    struct ft_cu_graph_object *next;
    nodes *nodes;
};

struct ft_cu_graph_exec_object {
    struct ft_cu_graph_exec_object *next;
    nodes *nodes;
    size_t queued; // launches
};

static ft_cu_graph graphs;
static ft_cu_graph_exec execs;

static void drop_nodes(nodes *n) {
    if (--n->users > 0) return;
    for (work *w = n->first, *next; w != NULL; w = next) {
        next = w->next;
        if (w->drop != NULL) w->drop(w->job);
        free(w);
    }
    free(n);
}

void fake_graph_add(ft_cu_graph graph, work value) {
    work *w = malloc(sizeof *w);
    if (w == NULL) fake_fatal("no memory");
    *w = value;
    w->next = NULL;
    w->recorded = true;
    *graph->nodes->last = w;
    graph->nodes->last = &w->next;
}

void fake_graph_run(ft_cu_graph_exec graph, int device) {
    for (const work *w = graph->nodes->first; w != NULL; w = w->next)
        fake_run(w, device);
}

void fake_graph_count(ft_cu_graph_exec graph, int change) { graph->queued += (size_t)change; }

static void drop_graph(ft_cu_graph graph) {
    ft_cu_graph *at = &graphs;
    while (*at != graph)
        at = &(*at)->next;
    *at = graph->next;
    drop_nodes(graph->nodes);
    free(graph);
    fake_kept.graphs--;
}

static void drop_exec(ft_cu_graph_exec exec) {
    ft_cu_graph_exec *at = &execs;
    while (*at != exec)
        at = &(*at)->next;
    *at = exec->next;
    drop_nodes(exec->nodes);
    free(exec);
    fake_kept.graphs--;
}

void fake_graphs_lose(void) {
    while (execs != NULL)
        drop_exec(execs);
    while (graphs != NULL)
        drop_graph(graphs);
}

int fake_capture_breaks(void) {
    bool any = false;
    for (ft_cu_stream s = fake_streams(); s != NULL; s = s->next)
        if (s->captured != NULL) any = s->broken = true;
    return any ? (fake_kept.misuses++, CAPTURE_UNSUPPORTED) : 0;
}

int cuStreamBeginCapture_v2(ft_cu_stream stream, unsigned mode) {
    BEGIN_IN_CONTEXT;
    DEMAND(fake_is_stream(stream), INVALID_HANDLE);
    DEMAND(mode <= FT_CU_CAPTURE_RELAXED, INVALID_VALUE);
    DEMAND(stream->captured == NULL, ILLEGAL_STATE);
    ft_cu_graph graph = calloc(1, sizeof *graph);
    nodes *n = calloc(1, sizeof *n);
    if (graph == NULL || n == NULL) fake_fatal("no memory");
    n->users = 1;
    n->last = &n->first;
    graph->nodes = n;
    graph->next = graphs;
    graphs = graph;
    fake_kept.graphs++;
    stream->captured = graph;
    stream->broken = false;
    return 0;
}

int cuStreamEndCapture(ft_cu_stream stream, ft_cu_graph *graph) {
    BEGIN_IN_CONTEXT;
    DEMAND(fake_is_stream(stream), INVALID_HANDLE);
    DEMAND(stream->captured != NULL, ILLEGAL_STATE);
    ft_cu_graph captured = stream->captured;
    stream->captured = NULL;
    *graph = stream->broken ? NULL : captured;
    if (!stream->broken) return 0;
    drop_graph(captured);
    return CAPTURE_INVALIDATED;
}

static bool is_graph(ft_cu_graph graph) {
    ft_cu_graph g = graphs;
    while (g != NULL && g != graph)
        g = g->next;
    return g != NULL;
}

static bool is_exec(ft_cu_graph_exec exec) {
    ft_cu_graph_exec e = execs;
    while (e != NULL && e != exec)
        e = e->next;
    return e != NULL;
}

int cuGraphInstantiateWithFlags(ft_cu_graph_exec *exec, ft_cu_graph graph, unsigned long long flags) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_graph(graph) && flags == 0, INVALID_VALUE);
    int forbidden = fake_may_wait();
    if (forbidden != 0) return forbidden;
    ft_cu_graph_exec e = calloc(1, sizeof *e);
    if (e == NULL) fake_fatal("no memory");
    e->nodes = graph->nodes;
    e->nodes->users++;
    e->next = execs;
    execs = e;
    fake_kept.graphs++;
    *exec = e;
    return 0;
}

int cuGraphLaunch(ft_cu_graph_exec exec, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_exec(exec), INVALID_VALUE);
    DEMAND(fake_is_stream(stream) && stream->captured == NULL, INVALID_HANDLE);
    fake_append(stream, (work){.kind = REPLAY, .graph = exec});
    return 0;
}

int cuGraphDestroy(ft_cu_graph graph) {
    DEMAND(is_graph(graph), INVALID_VALUE);
    drop_graph(graph);
    return 0;
}

// The real one would let a launch that is under way end; ours shall have waited.
int cuGraphExecDestroy(ft_cu_graph_exec exec) {
    DEMAND(is_exec(exec) && exec->queued == 0, INVALID_VALUE);
    drop_exec(exec);
    return 0;
}
