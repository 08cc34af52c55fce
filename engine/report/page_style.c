// page_style.c - how the page looks. Colours that charts know as c0, c1, ... (strokes) and b0, b1, ... (areas) are here.
#include "engine/report/html.h"
#include "engine/report/page.h"

static const char style[] =
    ":root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--text:#1c2430;--soft:#5d6877;--line:#dfe3e8;--accent:42,111,219;"
    "--bad:#b3261e;--0:#2a6fdb;--1:#d9622b;--2:#1f9d6b;--3:#b4439b;--4:#96831c;--5:#5b5fc7;--6:#c2394f;--7:#6b7786}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#12161c;--card:#1b2129;--text:#e4e8ee;--soft:#98a3b3;--line:#303843;"
    "--accent:96,156,255;--bad:#ff8a80;--0:#6ea8ff;--1:#ff9a66;--2:#4ecb97;--3:#e283cc;--4:#d3bf55;--5:#9a9eff;--6:#ff7d90;"
    "--7:#9aa6b5}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:1240px;margin:0 auto;padding:20px 20px 48px}\n"
    "h1{font-size:24px;margin:0;overflow-wrap:anywhere}h2{font-size:18px;margin:32px 0 10px}p{margin:4px 0 0}"
    ".soft,em{color:var(--soft);font-style:normal}.bad{color:var(--bad)}.path{overflow-wrap:anywhere}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-top:18px}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:14px}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px;margin:0;min-width:0}"
    ".tiles .card span{display:block;color:var(--soft);font-size:13px}.tiles .card "
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
    ".wide{width:100%}td.n,th{white-space:nowrap}td.long{overflow-wrap:anywhere;min-width:200px}td.name{max-width:220px;overflow:"
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
    ".below{margin-top:10px}details{margin-top:12px}summary{cursor:pointer;color:var(--soft)}.two{display:grid;gap:14px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr))}h3{font-size:15px;margin:0 0 8px}\n";

void ft_page_head(const ft_run_record *run, FILE *out) {
    // The policy keeps the page from ever running or fetching anything, whatever a label may look like.
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    ft_html_text(out, run->name);
    fputs(" - ftengine</title>\n<style>", out);
    fputs(style, out);
    for (int k = 0; k < 8; k++)
        fprintf(out, ".c%d{stroke:var(--%d)}.b%d{background:var(--%d);fill:var(--%d)}", k, k, k, k, k);
    fputs("</style></head>\n", out);
}
