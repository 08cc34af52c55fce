# Sourced behind shell_test.sh by tests of HTML pages: read.py, which reads them, and a browser that looks at them.

cat >read.py <<'PYTHON'
"""read.py PAGE: parses the page; gives its texts, table rows and charts."""
import html.parser
import re
import xml.etree.ElementTree as ElementTree

LOOSE = {"td", "th", "tr", "meta"} # whose end may be left out


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.source = open(path, encoding="utf-8").read()
        self.open, self.tags, self.rows, self.text, self.in_row = [], set(), [], "", False
        self.feed(self.source)
        assert self.open == [], self.open
        self.rows = [[cell.strip() for cell in row] for row in self.rows]
        self.charts = {}
        for title, svg in re.findall(r"<figcaption><b>([^<]*)</b>.*?(<svg.*?</svg>)", self.source, re.S):
            self.charts[title] = ElementTree.fromstring(svg)
        # Pictures of a study carry their titles themselves.
        self.pictures = {svg.get("aria-label"): svg for svg in map(ElementTree.fromstring, re.findall(r"<svg.*?</svg>", self.source, re.S))}

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            assert name not in ("src", "href") and not name.startswith("on"), (tag, name, value)
        if tag == "tr":
            self.rows.append([])
            self.in_row = True
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in LOOSE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.in_row = self.in_row and tag != "tr"
        if tag not in LOOSE:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data
        if self.in_row and self.rows[-1]:
            self.rows[-1][-1] += data


def points(chart):
    return [[tuple(map(float, p.split(","))) for p in line.get("points").split()] for line in chart.iter("polyline")]
PYTHON

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || browser=
look() { # look FILE WIDTH FLAG...: what the browser makes of the file, in dom
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$scratch/profile" --window-size="$2",900 \
        "${@:3}" --dump-dom "file://$scratch/$1" >dom 2>err || fail "$browser failed"
}
# The same page with a script that measures it. Hidden overflow (names cut with an ellipsis) and boxes that scroll are meant.
cat >probe.js <<'JS'
const found = [], box = e => e.getBoundingClientRect(), root = document.documentElement;
if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
for (const card of document.querySelectorAll(".card"))
    if (card.scrollWidth > card.clientWidth + 1) found.push("overflows: " + card.textContent.slice(0, 60));
for (const svg of document.querySelectorAll("svg")) {
    const all = box(svg), texts = [...svg.querySelectorAll("text")];
    for (const e of svg.querySelectorAll("text, polyline, polygon, circle, rect, path")) {
        const b = box(e);
        if (b.left < all.left - 1 || b.right > all.right + 1 || b.top < all.top - 1 || b.bottom > all.bottom + 1)
            found.push(`outside of ${svg.getAttribute("aria-label")}: ${e.tagName} ${e.textContent.slice(0, 30)}`);
    }
    texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
        const p = box(a), q = box(b);
        if (p.left < q.right && q.left < p.right && p.top + 1 < q.bottom && q.top + 1 < p.bottom)
            found.push(`overlap in ${svg.getAttribute("aria-label")}: ${a.textContent} | ${b.textContent}`);
    }));
    if (getComputedStyle(svg.querySelector("text")).fill === getComputedStyle(svg.closest(".card")).backgroundColor) found.push("invisible text");
}
const colour = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
document.body.innerHTML = `<pre>PROBE ${document.querySelectorAll("svg").length} ${colour[0] < 128 ? "dark" : "light"} ${found.length}\n</pre>`;
document.body.firstChild.append(found.join("\n"));
JS
measure() { # measure PAGE WIDTH CHARTS light|dark FLAG...
    python3 - "$1" <<'PYTHON'
import re
import sys
text = re.sub(r"<meta http-equiv=[^>]*>", "", open(sys.argv[1], encoding="utf-8").read())
open("probed.html", "w", encoding="utf-8").write(text.replace("</body>", "<script>" + open("probe.js").read() + "</script></body>"))
PYTHON
    look probed.html "$2" "${@:5}"
    grep -q "PROBE $3 $4 0" dom || fail "$1 at width $2: $(sed -n '/PROBE/,/<\/pre>/p' dom)"
}
dark=--blink-settings=preferredColorScheme=0 light=--blink-settings=preferredColorScheme=1
