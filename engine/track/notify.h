// notify.h - tells people: notify.command and notify.url, from a thread of its own. Nothing waits for it but
// ft_notifier_close, and that not long; what fails is a warning.
#ifndef FT_TRACK_NOTIFY_H
#define FT_TRACK_NOTIFY_H

#include "engine/config/config.h"

#include <jansson.h>

typedef struct ft_notifier ft_notifier;

// Whom the configuration and FTENGINE_NOTIFY_URL name; *notifier NULL: nobody. FT_INVALID: no address, or a file that
// cannot be read.
ft_status ft_notifier_open(const ft_config *config, ft_notifier **notifier);
// Takes the notice, whatever it is (NULL: the error is warned of and cleared). More than a few that wait are dropped,
// which is said.
void ft_notify(ft_notifier *notifier, json_t *notice);
// Waits for what was handed over, as long as each may take; NULL is fine.
void ft_notifier_close(ft_notifier *notifier);
// Of a run that has ended in `directory` (NULL: it did not come so far as to have one) with the present error, which
// stays; and closes.
void ft_notify_run(ft_notifier *notifier, const char *directory, ft_status outcome); // NULL is fine

#endif
