#!/usr/bin/env bash
# What a browser makes of the page of a study: nothing runs, nothing overflows, no two labels overlap, in narrow and wide windows,
# in light and in dark, on paper.
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/page_test.sh" || exit 1
[ -n "$browser" ] || { echo "skipped: there is no browser: run tools/install.sh pages"; exit 77; }
for made in plain:120:plain big:3000:plain two:300:two odd:60:odd one:1:plain none:0:plain same:9:same; do
    IFS=: read -r name count kind <<<"$made"
    python3 "$SOURCE_DIR/tests/hpo/make_report_studies.py" $name $count $kind >$name.jsonl || fail "$name is not made"
    expect 0 "$FTENGINE" study import $name.jsonl
    expect 0 "$FTENGINE" study report $name --output $name.html
done
pictures() { grep -o "<svg " "$1" | wc -l; }
look odd.html 1200
grep -q "<title>odd - ftengine</title>" dom || fail "something in the page ran: $(grep -o '<title>.*</title>' dom | head -1)"
for width in 1400 760 480; do
    measure plain.html $width "$(pictures plain.html)" light $light
    measure odd.html $width "$(pictures odd.html)" light $light
done
measure two.html 1100 "$(pictures two.html)" dark $dark
measure big.html 1100 "$(pictures big.html)" light $light
measure one.html 1100 "$(pictures one.html)" dark $dark
measure none.html 1100 0 light $light
measure same.html 1100 "$(pictures same.html)" light $light
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$scratch/profile" \
    --print-to-pdf="$scratch/page.pdf" "file://$scratch/two.html" >/dev/null 2>err || fail "it cannot be printed"
[ "$(head -c 5 page.pdf)" = %PDF- ] && [ "$(stat -c %s page.pdf)" -gt 20000 ] || fail "what was printed is no page"
