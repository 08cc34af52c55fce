// html.h - texts of users inside a page. Everything that did not come from our own source goes through here.
#ifndef FT_HTML_H
#define FT_HTML_H

#include <stdio.h>

// The text with & < > " ' as entities, ill-formed UTF-8 and control characters as U+FFFD: fit for an element and for a
// quoted attribute.
void ft_html_text(FILE *out, const char *text);
// The same in a <bdi>, so that a label in a right-to-left script does not turn round what stands beside it.
void ft_html_name(FILE *out, const char *text);

// A figure for people: at most `digits` significant digits, thousands without exponent ("12,345", "0.8649", "3e-05").
void ft_html_number(FILE *out, double value, int digits);

#endif
