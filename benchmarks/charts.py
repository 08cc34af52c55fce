"""Bar charts as SVG that need nothing else: no script, no font file, no library."""

from xml.sax.saxutils import escape

FONT = 'font-family="Helvetica, Arial, sans-serif"'


def tick_step(most, wanted=6):
    """The step of 1, 2 or 5 times a power of ten that gives about so many ticks up to `most`."""
    step = 10.0**-6
    for factor in [f * 10.0**e for e in range(-6, 16) for f in (1, 2, 5)]:
        step = factor
        if most / factor <= wanted:
            break
    return step


def grouped_bars(title, subtitle, axis, groups, series, marks=None, missing="not measured"):
    """Horizontal bars, some a group. groups: [(label, [value or None, ...])], a value for each series; series: [(name,
    colour)]. marks: (name, [value or None for each group]): a line across a group. missing: in the place of a bar."""
    bar, gap, left, right, width = 12, 10, 250, 90, 960
    top = 78 + 20 * (1 if not subtitle else 2)
    height_of = len(series) * bar + gap
    bottom = top + len(groups) * height_of
    values = [v for _, row in groups for v in row if v is not None] + [v for v in (marks[1] if marks else []) if v is not None]
    step = tick_step(max(values) * 1.02)
    most = step * -(-max(values) // step)
    scale = (width - left - right) / most
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 60}" width="{width}" height="{bottom + 60}" {FONT} font-size="12">',
        f'<rect width="{width}" height="{bottom + 60}" fill="white"/>',
        f'<text x="16" y="26" font-size="17" font-weight="bold">{escape(title)}</text>',
    ]
    if subtitle:
        out.append(f'<text x="16" y="46" fill="#555">{escape(subtitle)}</text>')
    x, y = 16, top - 34
    for name, colour in series:
        out.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/><text x="{x + 18}" y="{y}">{escape(name)}</text>')
        x += 40 + 7 * len(name)
    if marks:
        out.append(f'<path d="M{x + 6} {y - 12}v16" stroke="black" stroke-width="2"/><text x="{x + 18}" y="{y}">{escape(marks[0])}</text>')
    tick = 0
    while tick <= most + step / 2:
        at = left + tick * scale
        out.append(f'<path d="M{at:.1f} {top - 8}V{bottom}" stroke="#ddd"/><text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
        tick += step
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{bottom + 42}" text-anchor="middle">{escape(axis)}</text>')
    for i, (label, row) in enumerate(groups):
        y = top + i * height_of
        out.append(f'<text x="{left - 8}" y="{y + len(series) * bar / 2 + 4}" text-anchor="end">{escape(label)}</text>')
        for k, value in enumerate(row):
            at = y + k * bar
            if value is None:
                out.append(f'<text x="{left + 4}" y="{at + 10}" font-size="10" fill="#888">{escape(missing)}</text>')
                continue
            end = left + value * scale
            out.append(f'<rect x="{left}" y="{at}" width="{value * scale:.1f}" height="{bar - 1}" fill="{series[k][1]}"/>')
            out.append(f'<text x="{end + 4:.1f}" y="{at + 10}" font-size="10" fill="#333">{value:.2f}</text>')
        if marks and marks[1][i] is not None:
            at = left + marks[1][i] * scale
            out.append(f'<path d="M{at:.1f} {y - 2}v{len(series) * bar + 3}" stroke="black" stroke-width="2"/>')
    out.append(f'<path d="M{left} {top - 8}V{bottom}" stroke="#333"/></svg>')
    return "\n".join(out) + "\n"
