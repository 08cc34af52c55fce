// options_notify.c - [notify]: who is told when something happens.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_notify_section
#include "engine/config/option_rows.h"

static const ft_option rows[] = {
    STRING(notify.command, FREE, "", .elsewhere = "on_finish on_end callback_command notify_command hook",
           .help = "A shell command for the end of a run or study and for trouble: the event as JSON on its standard input, "
                 "its name in FTENGINE_EVENT, a line for people in FTENGINE_TEXT. Empty: none. What it does wrong is a "
                 "warning."),
    STRING(notify.url, FREE, "", .secret = true,
           .elsewhere = "webhook webhook_url slack_webhook slack_webhook_url ntfy_url notify_url",
           .help = "The same by POST: JSON, or as Slack, Mattermost, Discord, Teams and ntfy want it, by the address. Such "
                 "an address is a secret: it is never written down. file:PATH reads it from a file; empty: "
                 "FTENGINE_NOTIFY_URL, if that is set; none: nobody."),
    DURATION(notify.timeout, FREE, "10s", 0.1, 3600, .elsewhere = "notify_timeout webhook_timeout",
             .help = "How long a command, or one of three tries to reach notify.url, may take."),
};
const ft_section ft_notify_section = {
    .name = "notify", .help = "Who is told when something happens.", .rows = rows, .count = ROWS};
