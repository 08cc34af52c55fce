#include "engine/train/watch.h"

#include "base/context.h"

const ft_run_watch *ft_run_set_watch(const ft_run_watch *watch) {
    void **place = &ft_context_now()->kept[FT_CONTEXT_WATCH].value;
    const ft_run_watch *before = *place;
    *place = (void *)watch; // nobody writes to it
    return before;
}

void ft_run_tell(const ft_run_news *news) {
    const ft_run_watch *watch = ft_context_now()->kept[FT_CONTEXT_WATCH].value;
    if (watch != NULL) watch->told(watch->owner, news);
}
