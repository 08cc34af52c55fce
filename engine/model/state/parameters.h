// parameters.h - the registry of a model's parameters, and the stores they live in.
//
// Parameters are added in the order in which the backward pass completes their gradients (head first, embeddings last).
// ft_parameters_allocate then makes a list of stores (stores.h): what is trained, then what is frozen, back to back in one block of
// memory; what is trained with adapters is a block and a category of memory of its own (`beside`). Within a store parameters keep their
// order. Gradients of all that is trained are one flat buffer (gradients.h), in fp32.
// Weights of norms and magnitudes (`wide`) are fp32 for ops too: in 16 bits they are numbers of their own in a last store of the block (their places in the
// others are unused but for gradients and moments). They stand near 1, where bf16 has steps of 1/128, and in training that costs more than
// the rounding of all products does.
// Frozen weights of linear layers may be kept in another form than products read (`storage`): in a store of that form, where every one
// stands alone, its groups too. Who multiplies makes the product's form of them for as long as that takes (blocks/linear.c).
// Frozen weights of the linear layers of a layer stand in a store of all of these, layer by layer, and so does a frozen word table in one of its own:
// both may have the host for their home (memory.offload = trunk). Layers then come to the device two at a time (window.h). Of the table
// only rows are gathered, by a kernel that reads them where they are: an accelerator has the addresses of pinned memory.
// A frozen matrix whose file has it as it is read (`mapped`) stands in no store: it is read where the mapped file has it, in memory that all processes
// which read the file have in common, and that the system takes back when it needs it. Layers that travel keep their places in their store
// then, whose home is the file.
// Where the head alone is trained on features that are there (`head_alone`), nobody reads these two stores: they have no memory, and their numbers are
// in the model's files (elsewhere.h).
// Groups (Q, K and V) stand back to back, so that one product can use them as one matrix; every group begins at a multiple of
// 64 elements. What belongs to no parameter is zero and stays zero: it has no gradient.
//
// Of one matrix, the table of word embeddings, only those rows may be there that a run reads (word_rows.h): `held` of its
// rows have weights, the first `trained` of these gradients and moments too. It is the last of its kind, so that the rows
// without a gradient stand behind everything that has one: at the seam of two stores, where it goes on in the next.
#ifndef FT_PARAMETERS_H
#define FT_PARAMETERS_H

#include "base/arena.h"
#include "engine/memory/memory.h"
#include "engine/model/state/stores.h"
#include "engine/model/state/window.h"

// First values of what no file has.
typedef enum ft_drawn_kind { FT_DRAWN_USUAL, FT_DRAWN_ZERO, FT_DRAWN_NORMAL, FT_DRAWN_UNIFORM, FT_DRAWN_CONSTANT, FT_DRAWN_NORMS } ft_drawn_kind;
typedef struct ft_drawn {
    ft_drawn_kind kind; // USUAL: as the model's config.json has it; NORMS: of the rows of W + size B A
    double size;        // deviation, bound, value, or scale
    int weight, a, b;   // NORMS: registry, all in front of it; b -1: it is 0
} ft_drawn;

typedef struct ft_parameter {
    const char *name;     // as in a Hugging Face checkpoint
    int64_t rows, cols;   // a vector has rows == 0 (shape [cols])
    int64_t count;        // elements, of the whole matrix
    int64_t held, trained; // rows that are there, and of these the ones with a gradient; both `rows` but for the table
    int store;            // where it stands
    int64_t offset;       // in that store, elements
    int64_t gap;          // zeros in front of it, inside its group: where others have a parameter
    bool column;          // rows numbers, in files a vector: its order is that of the rows of a matrix (heads)
    int taps;             // > 0: of a convolution, shape [rows, cols / taps, taps] in files
    int side;             // > 0: of patches, shape [rows, cols / side / side, side, side] in files
    int leading;          // dimensions of 1 in front of its shape in files
    bool swapped;         // its first half of rows here is the second one in files
    int heads;            // > 0: queries, keys and values in one, here one after the other, in files head by head
    bool trainable, decay, starts_group;
    bool wide;            // ops read it in fp32 whatever the type
    int64_t wide_offset;  // of a wide one, in the store of these
    bool head;            // drawn when the checkpoint lacks it
    bool adapter;         // beside the model: its files do not have it
    ft_drawn drawn;
    int depth;            // 0: the head, 1: the last layer, ...; how often train.layer_lr_decay applies
    bool factor;          // nothing but products reads it: the weight of a linear layer
    int layer;            // whose frozen factor it is, counted from 0: it may travel; -1: nobody's. Of shared ones: of the last layer that has it
    bool kept;            // in the form of `storage`, in the store of these: offset counts its elements there, which are bytes of a quantised one
    const void *mapped;   // where a file has it as it is read; NULL: it stands in its store
    int arrives, completes; // where the backward pass first and last writes its gradient (gradients.h)
    int last;             // the same of a micro-batch: behind it there is only the end of the step
    int lowest;           // the last block of these that is one of the model's: below it nothing needs the parameter's gradient
} ft_parameter;

enum { FT_STORE_TRAINED, FT_STORE_FROZEN }; // the first two stores
typedef struct ft_parameters {
    ft_parameter *list;
    int count, capacity;
    ft_store *stores;
    int store_count;
    int kept_store;           // -1: nothing is kept in another form than ops read
    int wide_store;           // -1: there is none, wide or not makes no difference
    int layer_store, table_store; // of frozen layers, and of a frozen word table; -1: there are none
    int layers;               // of the model, for these; before they are allocated
    ft_place frozen_place;    // the home of both; the same
    size_t mapped_bytes;      // of what is read where files have it
    const char *copied;       // why nothing is; NULL: something is
    bool table_is_factor;     // products read the word table: it stays on the device; the same
    bool head_alone;          // frozen layers and a frozen table that is no factor are not there; the same, without a trunk or a home on the host
    ft_window window;         // on: layers have the host for their home
    void *block;              // device: the weights of all stores, back to back
    struct ft_trunk *trunk;   // whose the frozen numbers are (trunk.h), before they are allocated; NULL: the model's own
    void *beside;             // where there are adapters, those of what is trained, which is a block of its own then
    int64_t trainable;        // elements of all trained stores, padding included: of the gradients
    int64_t real_total, real_trainable; // parameters, without padding
    ft_storage storage;       // of frozen factors; before they are allocated
    ft_dtype dtype;           // of what ops read; with the place of the stores' state set before they are allocated, fp32 else
    ft_place place;
    bool deals;               // moments among ranks (shards.h); before they are allocated
    bool deals_gradients;     // these too, where they are in steps (gradient_parts.h); the same
    float *gradients;         // [trainable] device, gradients.h; NULL: none held, or not yet in the arena
    bool gradients_in_steps;
    bool gradients_in_slots;  // of ranks that share memory and add up by themselves: `gradients` is this one's slot (gradients.h)
    int64_t gradients_reached; // in the arena, and in a slot: elements from the front on that have come
    int gradients_point;      // where the backward pass has come to
    double *norm_sums;        // of several ranks, that all see: sums of squares of the gradients (adamw.h); NULL: there is one
    struct ft_chain *chain;   // of several ranks, which add to the same gradients one behind the other (chain.h); NULL: there is one
    struct ft_gradient_parts *parts; // of ranks with gradients of their own: their pieces (gradient_parts.h), while gradients are held; NULL: there are none
    struct ft_word_sums *words; // of these, where the word table is summed by rows (word_sums.h); NULL: it is not
    struct ft_gradient_sums *sums; // of several ranks with gradients of their own, which are summed (gradient_sums.h); NULL: there is none
    int table;                // the parameter whose gradient is summed row by row for the norm (adamw.h); -1: none
    ft_adamw_range table_range; // weight decay and lr_scale of all its rows; both 0 when it is not trained
    int32_t *table_blocks;    // device, as adamw.h has it; NULL: all rows are there
    struct ft_backward_notes *notes; // gradients.h; NULL: nobody wants to know
    ft_memory *memory;
    ft_arena arena;
} ft_parameters;

typedef struct ft_parameter_spec {
    const char *name;
    int64_t rows, cols; // rows 0: vector
    int64_t gap;
    int heads, taps, side, leading;
    int depth;
    int point; // of the backward pass, which writes its gradient there
    ft_drawn drawn;
    bool adapter;
    bool trainable, decay, joins_group, head; // joins_group: stands right behind the previous parameter, `gap` aside
    bool wide, factor, column, swapped;
} ft_parameter_spec;

// Returns the index, or -1 with the error set.
int ft_parameters_add(ft_parameters *p, ft_parameter_spec spec);
// The gradient of the parameter is written at this point of the backward pass too: it is shared.
void ft_parameters_share(ft_parameters *p, int index, int point);
// The same at the end of the step, behind all micro-batches.
void ft_parameters_share_end(ft_parameters *p, int index, int end);
// As ft_parameters_share, and there stands a block of the model that the parameter belongs to as well.
void ft_parameters_share_block(ft_parameters *p, int index, int point);
// The matrix `index`, the last of its kind, is the table of which `held` rows are there and the first `trained` have a
// gradient, if the matrix is trained at all. Before it is allocated.
void ft_parameters_set_table(ft_parameters *p, int index, int64_t held, int64_t trained);
// Those that `storage` is about.
int ft_parameters_frozen_factors(const ft_parameters *p);
// Of these, those of layers (memory.offload = trunk).
int ft_parameters_frozen_in_layers(const ft_parameters *p);
// In which type it is read and kept; FT_U8: as a matrix of few bits. Before they are allocated.
ft_dtype ft_parameters_form(const ft_parameters *p, int index);
// Is it the factor of a layer (memory.offload = trunk)?
bool ft_parameters_in_layer(const ft_parameters *p, int index);
// Weights only (inference). After it views may be taken. With a trunk, which is lent to models with adapters alone: FT_FAILED else.
ft_status ft_parameters_allocate(ft_parameters *p, ft_memory *memory);
// What makes weights of 16 bits as exact as fp32: before they are loaded, if they will be trained.
ft_status ft_parameters_allocate_master(ft_parameters *p);
// m and v (zeroed) and the ranges of AdamW of every trained store.
// A parameter's learning rate is lr_decay^depth times the run's.
// blocks: of the table, [ft_norm_blocks(rows) + 1] host; NULL when all its rows are there.
ft_status ft_parameters_allocate_training(ft_parameters *p, double weight_decay, double lr_decay, const int32_t *blocks);
size_t ft_parameters_weight_bytes(const ft_parameters *p); // of all stores
bool ft_parameters_state_on_host(const ft_parameters *p);  // of any store
void ft_parameters_free(ft_parameters *p); // {0} is fine
// Is it one of a trunk's, whose numbers are there already?
bool ft_parameter_is_lent(const ft_parameters *p, int index);
// Is it one of those that are not there (head_alone)? Nothing below gives it.
bool ft_parameter_is_absent(const ft_parameters *p, int index);
int ft_parameters_find(const ft_parameters *p, const char *name); // -1 if absent

// The shape that a file gives the parameter; returns the rank.
enum { FT_PARAMETER_RANK = 4 };
int ft_parameter_shape(const ft_parameter *p, int64_t shape[FT_PARAMETER_RANK]);
// Where element `element` of the tensor in a file stands in the parameter, and how many of the *count elements from there
// on follow it in both: *count becomes that.
int64_t ft_parameter_place(const ft_parameter *p, int64_t element, int64_t *count);

// The way back: element `element` of the parameter is which one of the tensor in a file; *count as above.
int64_t ft_parameter_source(const ft_parameter *p, int64_t element, int64_t *count);

// What ops read. Of the table: the rows that are there. Of one that is kept in another form: that form, [rows, cols], or the bytes of
// a quantised matrix, [ft_quantised_layout.bytes] of FT_U8. Of a layer that travels: while it is entered (window.h); its data are NULL else.
ft_tensor ft_parameter_weight(const ft_parameters *p, int index);
// The same where it always is: for files.
ft_tensor ft_parameter_home(const ft_parameters *p, int index);
// The parameter as exact as it is there, which files are read to and written from: with its tail or its master copy, if it has
// one (of the table: the trained rows), else as above. What is written to it is there for ops too. Not of a quantised one: stored.h.
ft_staged ft_parameter_stored(const ft_parameters *p, int index);
// m or v of a trained parameter (of the table: the trained rows), a vector, at the place of its store's state.
ft_tensor ft_parameter_moment(const ft_parameters *p, int index, ft_store_state moment);

#endif
