// ini.h - inside engine/config: an INI text as (section, key, value, line), read by Debian's inih, whose handlers are
// not told the line.
//
// A comment is a line that begins with ; or #, or what follows such a character that begins a word. Values are trimmed
// and one line long; key: value is the same as key = value. The text may begin with a byte order mark.
#ifndef FT_CONFIG_INI_H
#define FT_CONFIG_INI_H

#include "base/status.h"

#include <stddef.h>

#define FT_INI_LINE_LIMIT 16384 // bytes of a line

// Called for every key; `where` is "label:line". Any status but FT_OK ends the reading and is returned.
typedef ft_status (*ft_ini_handler)(void *user, const char *section, const char *key, const char *value, int line,
                                    const char *where);
ft_status ft_ini_parse(const char *text, size_t size, const char *label, ft_ini_handler handler, void *user);

#endif
