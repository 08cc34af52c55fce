// page_style.c - how pages look. Colours that charts know as c0, c1, ... (strokes) and b0, b1, ... (areas) are here: they can be
// told apart with any kind of colour vision (after Okabe and Ito), those of one order (q0 to q9) by their lightness too.
#include "engine/report/html.h"
#include "engine/report/page.h"

#include <string.h>

static const struct {
    const char *name, *light, *dark;
} colours[] = {
    {"back", "#f6f7f9", "#12161c"}, {"card", "#fff", "#1b2129"},   {"text", "#1c2430", "#e4e8ee"},
    {"soft", "#5d6877", "#98a3b3"}, {"line", "#dfe3e8", "#303843"}, {"accent", "0,114,178", "86,180,233"},
    {"bad", "#b3261e", "#ff8a80"},  {"0", "#0072b2", "#56a9e8"},    {"1", "#d55e00", "#f58f4a"},
    {"2", "#009e73", "#35c99c"},    {"3", "#b4569a", "#e59cc9"},    {"4", "#b07d00", "#e9b23d"},
    {"5", "#3f9fd8", "#8fd0f5"},    {"6", "#8a8100", "#e0d84e"},    {"7", "#6b7786", "#9aa6b5"},
    // From the worst to the best; on a dark page the light end is the best.
    {"q0", "#ead35a", "#3f4f7a"},   {"q1", "#d5c164", "#465880"},   {"q2", "#bfae6c", "#566283"},
    {"q3", "#a89c73", "#686d84"},   {"q4", "#918a77", "#7c7a80"},   {"q5", "#7b7979", "#938a79"},
    {"q6", "#646877", "#ab9c70"},   {"q7", "#4c5774", "#c4af64"},   {"q8", "#2f4570", "#dec454"},
    {"q9", "#00306f", "#fbdc3f"},
};
enum { COLOURS = sizeof colours / sizeof colours[0] };

static const char style[] =
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:1240px;margin:0 auto;padding:20px 20px 48px}\n"
    "h1{font-size:24px;margin:0;overflow-wrap:anywhere}h2{font-size:18px;margin:32px 0 10px}p{margin:4px 0 0}"
    ".soft,em{color:var(--soft);font-style:normal}.bad{color:var(--bad)}.path{overflow-wrap:anywhere}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-top:18px}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:14px}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px;margin:0;min-width:0}"
    ".tiles .card span{display:block;color:var(--soft);font-size:13px;overflow-wrap:anywhere}.tiles .card "
    "b{font-size:21px;font-weight:600;overflow-wrap:anywhere}\n"
    "figcaption b{margin-right:10px}.key{white-space:nowrap;font-size:13px;margin-right:12px;color:var(--soft)}"
    ".key i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}"
    "svg{display:block;width:100%;height:auto;margin-top:6px}svg text{fill:var(--soft);font-size:11px}"
    ".grid path{stroke:var(--line);fill:none}polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}"
    ".mark{stroke:var(--soft);stroke-dasharray:4 4;fill:none}text.mark{stroke:none;fill:var(--soft)}"
    "svg .blank{fill:var(--card);stroke:var(--soft);stroke-dasharray:3 3}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px}th,td{padding:4px "
    "10px;text-align:left;vertical-align:top;"
    "border-bottom:1px solid "
    "var(--line)}th{font-weight:600;color:var(--soft)}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".wide{width:100%}td.n,th{white-space:nowrap}td.long{overflow-wrap:anywhere;min-width:140px}td.name{max-width:220px;overflow:"
    "hidden;"
    "text-overflow:ellipsis;white-space:nowrap}\n"
    ".confusion td{text-align:right;min-width:44px;font-variant-numeric:tabular-nums;"
    "background:rgba(var(--accent),calc(var(--s,0)*.75));border:1px solid var(--line)}.confusion .right{outline:2px solid "
    "var(--2);"
    "outline-offset:-2px}"
    ".confusion th{max-width:140px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;border:0}.confusion "
    "th.n{min-width:44px}\n"
    ".bar{display:block;height:10px;margin-top:6px;border-radius:3px;background:var(--0);min-width:1px}.bars "
    "td:last-child{width:60%}"
    ".below,.card.below{margin-top:14px}details{margin-top:12px}summary{cursor:pointer;color:var(--soft)}.two{display:grid;gap:14px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr))}h3{font-size:15px;margin:0 0 8px}"
    ".texts img{display:block;margin:2px 0 4px;border-radius:3px}\n"
    // Beside four columns a text or a path would have a word a line there.
    "@media screen and (max-width:700px){.texts,.texts tbody,.texts tr{display:block}.texts tr{border-bottom:1px solid "
    "var(--line);padding:4px 0}.texts td,.texts th{display:inline-block;border:0;padding:0 12px 0 0}.texts td.long{display:block}}\n"
    "@media print{main{max-width:none;padding:0}.card,figure{break-inside:avoid}.scroll{overflow:visible}}\n";

static void write_colours(FILE *out) {
    fputs(":root{color-scheme:light dark", out);
    for (int k = 0; k < COLOURS; k++)
        fprintf(out, ";--%s:%s", colours[k].name, colours[k].light);
    fputs("}\n@media screen and (prefers-color-scheme:dark){:root{", out); // on paper all is light
    for (int k = 0; k < COLOURS; k++)
        fprintf(out, "%s--%s:%s", k > 0 ? ";" : "", colours[k].name, colours[k].dark);
    fputs("}}\n", out);
}

void ft_page_light_style(FILE *out, const char *rules) {
    static const char variable[] = "var(--";
    for (const char *at; (at = strstr(rules, variable)) != NULL;) {
        fwrite(rules, 1, (size_t)(at - rules), out);
        at += strlen(variable);
        size_t length = strcspn(at, ")");
        for (int k = 0; k < COLOURS; k++)
            if (strncmp(colours[k].name, at, length) == 0 && colours[k].name[length] == '\0') fputs(colours[k].light, out);
        rules = at + length + 1;
    }
    fputs(rules, out);
}

void ft_page_head(FILE *out, const char *title, const char *more_style) {
    // The policy keeps the page from ever running or fetching anything, whatever a label may look like.
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    ft_html_text(out, title);
    fputs(" - ftengine</title>\n<style>", out);
    write_colours(out);
    fputs(style, out);
    for (int k = 0; k < 8; k++)
        fprintf(out, ".c%d{stroke:var(--%d)}.b%d{background:var(--%d);fill:var(--%d)}", k, k, k, k, k);
    fputs(more_style, out);
    fputs("</style></head>\n", out);
}
