// notice.h - an event as other programs are told it.
//
//     {"event": "study.finished", "text": "...", "study": "baseline", "trial": 87, "value": 0.931, "params": {..},
//     "counts": {..},
//      "run": "/…/runs/a-001", "status": "completed", "metrics": {..}, "host": "box", "time": 1764158400}
//
// as far as the event has them; `text` is a line that helps on a phone.
#ifndef FT_TRACK_NOTICE_H
#define FT_TRACK_NOTICE_H

#include "base/status.h"

#include <jansson.h>

// {"event", "text", "host", "time"}; more may be put into it. NULL with the error set.
json_t *ft_notice(const char *event, const char *text);
// Of a run that has ended, by its directory's run.json where it has one: run.finished, run.diverged, run.oom,
// run.failed, run.stopped.
json_t *ft_notice_of_run(const char *directory, ft_status outcome, const char *error);

typedef enum ft_notice_form {
    FT_NOTICE_JSON,
    FT_NOTICE_SLACK,
    FT_NOTICE_DISCORD,
    FT_NOTICE_TEAMS,
    FT_NOTICE_NTFY
} ft_notice_form;
ft_notice_form ft_notice_form_of(const char *url);
// What is posted: JSON, of ntfy the text; free() it. NULL with the error set.
char *ft_notice_body(const json_t *notice, ft_notice_form form);

#endif
