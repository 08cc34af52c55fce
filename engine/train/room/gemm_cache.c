#include "engine/train/room/gemm_cache.h"

#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/stop.h"
#include "engine/train/room/gemm_tuning.h"
#include "engine/train/room/observer.h"
#include "kernels/devices/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { FORMAT_VERSION = 4, LOOK_EVERY = 100 }; // 2: products with an activation are measured, too; 3: those with its slope; 4: those with a norm; milliseconds

// ---- the file ---------------------------------------------------------------------------------------------------

static json_t *empty(const ft_gemm_cache *c) {
    char driver[FT_GEMM_DRIVER];
    ft_gemms_driver(c->device, driver);
    return json_pack("{s:i, s:o, s:o, s:I, s:s, s:[], s:[]}", "format_version", FORMAT_VERSION, "chip",
                     ft_json_text(c->device->description), "driver", ft_json_text(driver), "cublaslt",
                     (json_int_t)ft_gemms_library(c->device), "model", c->model, "sizes", "products");
}

static void forget(ft_gemm_cache *c) {
    json_decref(c->root);
    free(c->choices);
    c->root = NULL;
    c->choices = NULL;
    c->count = 0;
}

// Of what a run would take from it.
static ft_status sum_of(const json_t *root, char sha256[65]) {
    static const char *const lists[] = {"sizes", "products"};
    unsigned char digest[32];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *text = ft_json_line(json_object_get(root, lists[i]));
        if (text == NULL) return FT_NO_MEMORY;
        ft_sha256_add(&hash, text, strlen(text) + 1);
        free(text);
    }
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, sha256);
    return FT_OK;
}

// Is it what this program writes for this chip, driver, library and model?
static ft_status check(const ft_gemm_cache *c, const json_t *root) {
    static const char *const lists[] = {"sizes", "products"}, *const said[] = {"format_version", "chip", "driver",
                                                                               "cublaslt", "model"};
    json_t *own = empty(c);
    char sum[65] = "";
    ft_status status = own != NULL ? FT_OK : ft_fail_memory(0, "a cache of matrix products");
    for (size_t i = 0; i < sizeof said / sizeof *said && status == FT_OK; i++)
        if (!json_equal(json_object_get(root, said[i]), json_object_get(own, said[i])))
            status = ft_fail(FT_INVALID, c->path, "its %s is another one", said[i]);
    json_decref(own);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && status == FT_OK; i++)
        if (!json_is_array(json_object_get(root, lists[i])))
            status = ft_fail(FT_INVALID, c->path, "%s is no list", lists[i]);
    if (status == FT_OK) status = sum_of(root, sum);
    const char *written = json_string_value(json_object_get(root, "sha256"));
    if (status == FT_OK && (written == NULL || strcmp(written, sum) != 0))
        status = ft_fail(FT_INVALID, c->path, "its sum is another one");
    return status;
}

static ft_status read_file(ft_gemm_cache *c) {
    json_t *root;
    FT_TRY(ft_json_load(c->path, &root));
    ft_status status = check(c, root);
    if (status == FT_OK)
        status = ft_gemm_products_read(json_object_get(root, "products"), c->path, &c->choices, &c->count);
    c->root = root;
    if (status != FT_OK) forget(c);
    return status;
}

static ft_status load(ft_gemm_cache *c) {
    forget(c);
    if (c->path != NULL && ft_path_exists(c->path)) {
        const ft_status status = read_file(c);
        if (status == FT_OK || status == FT_NO_MEMORY) return status;
        if (!c->told) ft_warn("measured matrix products in %s are not taken: %s", c->path, ft_error_message());
        c->told = true;
        ft_error_clear();
    }
    c->root = empty(c);
    return c->root != NULL ? FT_OK : ft_fail_memory(0, "a cache of matrix products");
}

static void add_text(ft_sha256_state *hash, const char *text) { ft_sha256_add(hash, text, strlen(text) + 1); }

static ft_status find_path(ft_gemm_cache *c) {
    char driver[FT_GEMM_DRIVER], hex[65];
    unsigned char digest[32];
    ft_sha256_state hash;
    const char *directory;
    const int64_t numbers[] = {FORMAT_VERSION, (int64_t)ft_gemms_library(c->device), c->device->target.sm_count};
    ft_gemms_driver(c->device, driver);
    ft_sha256_begin(&hash);
    ft_sha256_add(&hash, numbers, sizeof numbers);
    add_text(&hash, c->device->description);
    add_text(&hash, driver);
    add_text(&hash, c->model);
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, hex);
    FT_TRY(ft_user_cache(&c->arena, "gemm", &directory));
    if (directory == NULL) return FT_OK;
    c->path = ft_arena_format(&c->arena, "%s/%.24s.json", directory, hex);
    c->lock = ft_arena_format(&c->arena, "%s/%.24s.lock", directory, hex);
    return c->path != NULL && c->lock != NULL ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_gemm_cache_open(const ft_device *device, const char *model, ft_gemm_cache *c) {
    *c = (ft_gemm_cache){.device = device, .held = -1};
    c->model = ft_arena_strdup(&c->arena, model);
    if (c->model == NULL) return FT_NO_MEMORY;
    FT_TRY(find_path(c));
    return load(c);
}

void ft_gemm_cache_close(ft_gemm_cache *c) {
    forget(c);
    if (c->held >= 0) close(c->held); // and the lock is gone
    ft_arena_free(&c->arena);
    *c = (ft_gemm_cache){.held = -1};
}

// ---- who measures -----------------------------------------------------------------------------------------------

static ft_status wait_for_lock(const ft_gemm_cache *c) {
    const struct timespec pause = {.tv_nsec = LOOK_EVERY * 1000000L};
    bool told = false;
    while (flock(c->held, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return FT_OK; // some file systems have no locks
        if (!told) ft_info("gemm       another process measures the matrix products of this model: waiting for it");
        told = true;
        const int asked = ft_stop_signal();
        if (asked != 0)
            return ft_fail(ft_stop_status(asked), NULL, "stopped while another process measures matrix products");
        ft_run_alive(NULL, 0, 0, false); // a worker that waits does not hang
        nanosleep(&pause, NULL);
    }
    return FT_OK;
}

ft_status ft_gemm_cache_lock(ft_gemm_cache *c) {
    if (c->path == NULL)
        return ft_fail(FT_FAILED, "XDG_CACHE_HOME", "no directory for caches: neither it nor HOME is set");
    char *directory = ft_arena_strndup(&c->arena, c->path, (size_t)(strrchr(c->path, '/') - c->path));
    if (directory == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_make_directories(directory));
    c->held = open(c->lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (c->held < 0) return ft_fail_errno(FT_FAILED, errno, c->lock, "cannot write there");
    if (access(directory, W_OK) != 0) return ft_fail_errno(FT_FAILED, errno, directory, "cannot write there");
    FT_TRY(wait_for_lock(c));
    return load(c); // what the other one has measured
}

// ---- sizes ------------------------------------------------------------------------------------------------------

static const json_t *find(const ft_gemm_cache *c, int64_t tokens, int64_t sequences) {
    const json_t *list = json_object_get(c->root, "sizes");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *size = json_array_get(list, i);
        if (json_integer_value(json_object_get(size, "tokens")) == tokens &&
            json_integer_value(json_object_get(size, "sequences")) == sequences)
            return json_object_get(size, "products");
    }
    return NULL;
}

bool ft_gemm_cache_has(const ft_gemm_cache *c, int64_t tokens, int64_t sequences) {
    return find(c, tokens, sequences) != NULL;
}

ft_status ft_gemm_cache_measure(ft_gemm_cache *c, ft_device *device) {
    ft_gemms_forget(device);
    FT_TRY(ft_gemms_use(device, c->choices, c->count));
    return ft_gemms_measure(device);
}

ft_status ft_gemm_cache_add(ft_gemm_cache *c, const ft_device *device, int64_t tokens, int64_t sequences) {
    size_t count;
    const ft_gemm_choice *choices = ft_gemms_choices(device, &count); // those of the file in front, then what is new
    bool failed = false;
    char sum[65];
    json_t *asked = json_array(), *products = json_object_get(c->root, "products");
    for (size_t i = 0; i < count; i++)
        if (choices[i].asked) ft_json_append(asked, json_integer((json_int_t)i), &failed);
    for (size_t i = c->count; i < count; i++)
        ft_json_append(products, ft_gemm_product_json(&choices[i]), &failed);
    ft_json_append(json_object_get(c->root, "sizes"),
                   json_pack("{s:I, s:I, s:o}", "tokens", (json_int_t)tokens, "sequences", (json_int_t)sequences,
                             "products", asked),
                   &failed);
    if (failed) return ft_fail_memory(0, "a cache of matrix products");
    FT_TRY(sum_of(c->root, sum));
    ft_json_put(c->root, "sha256", json_string(sum), &failed);
    if (failed) return ft_fail_memory(0, "a cache of matrix products");
    FT_TRY(ft_json_save(c->path, c->root));
    return load(c); // as every later run reads it
}

// Product `index` of the file, where one of the sizes asks for it.
static bool is_wanted(const ft_gemm_cache *c, const int64_t (*sizes)[2], size_t count, size_t index) {
    for (size_t i = 0; i < count; i++) {
        const json_t *list = find(c, sizes[i][0], sizes[i][1]);
        for (size_t k = 0; k < json_array_size(list); k++)
            if (json_integer_value(json_array_get(list, k)) == (json_int_t)index) return true;
    }
    return false;
}

ft_status ft_gemm_cache_use(const ft_gemm_cache *c, ft_device *device, const int64_t (*sizes)[2], size_t count) {
    ft_gemms_forget(device);
    for (size_t i = 0; i < c->count; i++)
        if (is_wanted(c, sizes, count, i)) FT_TRY(ft_gemms_use(device, &c->choices[i], 1));
    return FT_OK;
}
