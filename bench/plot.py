"""SVG plot of the measurements beside peers: one group of bars per scenario, for light and dark pages."""

import statistics
import textwrap
from xml.sax.saxutils import escape

import comparison
from peers import OURS, Scenario, System
from peer_report import Results, circumstances

COLUMNS = 2
COLUMN = 480  # pixels, as all below
MARGIN = 24
LABEL = 168
BAR = 190
ROW = 19
THICK = 13
TITLE = 30
GAP = 26
CAPTION_CHARS = 165
CAPTION_ROW = 15

STYLE = """
  .paper { fill: #ffffff } .text { fill: #1f2328 } .soft { fill: #59636e } .line { stroke: #8c959f }
  .ours { fill: #0969da } .theirs { fill: #b6bec8 } .spread { stroke: #1f2328; stroke-width: 1 }
  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 12px }
  .title { font-size: 14px; font-weight: 600 } .head { font-size: 17px; font-weight: 600 }
  .small { font-size: 10.5px } .bold { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .text { fill: #e6edf3 } .soft { fill: #9198a1 } .line { stroke: #656c76 }
    .ours { fill: #58a6ff } .theirs { fill: #4d5661 } .spread { stroke: #e6edf3 }
  }
"""


def svg(results: Results) -> str:
    groups = [group for scenario in results.scenarios if (group := bars(results, scenario))]
    caption = captions(results)
    body = [text(MARGIN, MARGIN + 14, "Longhaul beside its peers", "text head")]
    ends = [MARGIN + 34] * COLUMNS
    for scenario, lines in groups:
        column = ends.index(min(ends))
        body.append(panel(MARGIN + column * COLUMN, ends[column], scenario, lines))
        ends[column] += TITLE + ROW * len(lines) + GAP
    top = max(ends)
    for number, line in enumerate(caption):
        body.append(text(MARGIN, top + number * CAPTION_ROW, line, "soft small"))
    width = 2 * MARGIN + COLUMNS * COLUMN
    height = top + len(caption) * CAPTION_ROW + MARGIN // 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="Longhaul beside its peers">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="paper" width="{width}" height="{height}"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def bars(results: Results, scenario: Scenario) -> tuple[Scenario, list[tuple[System, list[float]]]] | None:
    """Returns the systems, best first."""
    lines = [(one, values) for one in results.systems if (values := results.passes(one, scenario))]
    lines.sort(key=lambda line: statistics.median(line[1]), reverse=scenario.unit != "ms")
    return (scenario, lines) if lines else None


def panel(left: int, top: int, scenario: Scenario, lines: list[tuple[System, list[float]]]) -> str:
    """Draws bars of the medians, each with a thin line from its lowest to its highest pass."""
    better = "less is better" if scenario.unit == "ms" else "more is better"
    rate = "steps/s" if scenario.field == "stepsPerS" else "jobs/s"
    unit = "ms" if scenario.unit == "ms" else rate
    elements = [text(left, top + 12, scenario.title, "text title")]
    elements.append(text(left + COLUMN - MARGIN, top + 12, f"{unit}, {better}", "soft small", "end"))
    scale = BAR / max(max(values) for _, values in lines)
    zero = left + LABEL
    for number, (system, values) in enumerate(lines):
        y = top + TITLE - 6 + number * ROW
        ours = system.name == OURS
        median = statistics.median(values)
        weight = " bold" if ours else ""
        elements.append(text(zero - 8, y + 11, system.title, f"text{weight}", "end"))
        elements.append(
            f'<rect class="{"ours" if ours else "theirs"}" x="{zero}" y="{y}" '
            f'width="{max(1.0, median * scale):.1f}" height="{THICK}"/>'
        )
        if len(values) > 1:
            low, high = (zero + bound * scale for bound in (min(values), max(values)))
            middle = y + THICK / 2
            elements.append(
                f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>'
            )
        shown = comparison.quantity(median, scenario.unit).removesuffix("/s").removesuffix(" ms")
        elements.append(text(zero + max(values) * scale + 7, y + 11, shown, f"text{weight}"))
    bottom = top + TITLE - 9 + len(lines) * ROW
    elements.append(f'<line class="line" x1="{zero}" x2="{zero}" y1="{top + TITLE - 9}" y2="{bottom}"/>')
    return "\n".join(elements)


def captions(results: Results) -> list[str]:
    """Returns versions and settings, wrapped."""
    lines = []
    for system in results.systems:
        lines += textwrap.wrap(f"{results.titled(system)}: {system.settings}.", CAPTION_CHARS)
    lines += textwrap.wrap(circumstances(results), CAPTION_CHARS)
    if results.args.passes > 1:
        lines.append("A bar is the median of the passes, the thin line goes from the lowest to the highest.")
    return lines


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
