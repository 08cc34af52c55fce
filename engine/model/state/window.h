// window.h - layers whose weights lie in memory of the host (memory.offload = trunk), two of them on the device at a time, for a device that has
// memory of its own.
//
// Frozen weights never change, so that they travel one way only. While a layer is computed the next one that will be asked for is on its
// way, on the copying stream, into the place of the one before:
//
//   computing   layer 0 | layer 1 | layer 2 | ...      | back 2 | back 1 | back 0
//   copying       up 1  |  up 2   |  up 3   | ...      |  up 1* |  up 0
//
// (*: what is there already is not sent again, such as the last two layers when the way back begins, or the first two when it has ended.)
// Weights that their file has as they are needed have no copy on the host: they are read from the mapped file, of which all processes have one,
// into a pinned place of a layer's size - two of them - and go up from there.
// A place is written to when what was computed with it has run, and read when it is full: both are said with events, the host waits for
// nothing. Bytes go up as they lie there, packed ones packed, so that results have the bits of weights that never left the device.
#ifndef FT_WINDOW_H
#define FT_WINDOW_H

#include "engine/memory/memory.h"

enum { FT_WINDOW_PLACES = 2 };

// A matrix of a layer in a mapped file; `at`: in the layer's place.
typedef struct ft_window_piece {
    const void *from;
    size_t at, bytes;
} ft_window_piece;

// Of the host's memory: where the weights of a layer are. bytes 0: it has none there. pieces: where they come from instead, in files.
typedef struct ft_window_layer {
    size_t first, bytes;
    const ft_window_piece *piece;
    int pieces;
} ft_window_layer;

typedef struct ft_window {
    bool on;
    ft_memory *memory;
    const char *host;             // pinned: of all layers; NULL: they are in files
    const ft_window_layer *layer; // [layers]
    int layers;
    char *places;                 // device, FT_WINDOW_PLACES at most of `place` bytes
    char *on_the_way;             // pinned, the same: what was read from files
    size_t place;
    int count;
    int held[FT_WINDOW_PLACES];   // the layer that is there, or on its way; -1: none
    bool waited[FT_WINDOW_PLACES]; // and what is computed from here on finds it there
    int last;                     // the place of the layer that is computed
    ft_event *filled[FT_WINDOW_PLACES], *used; // filled: and the way of what is read from files is free again
} ft_window;

// host, layer: for as long as the window is open. Nothing is sent before ft_window_enter. After a failure it is to be closed.
ft_status ft_window_open(ft_memory *memory, const char *host, int layers, const ft_window_layer *layer, ft_window *window);
void ft_window_close(ft_window *window); // {0} is fine
// From here on, until another is entered, the weights of the layer may be read by what is queued on FT_STREAM_COMPUTE. next: which one will
// be entered after it, as far as anybody knows (-1: nobody does); it is sent meanwhile. A wrong guess costs time and nothing else.
ft_status ft_window_enter(ft_window *window, int layer, int next);
// Where on the device they are. NULL: the layer was not entered.
char *ft_window_address(const ft_window *window, int layer);

#endif
