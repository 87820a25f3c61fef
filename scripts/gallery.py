#!/usr/bin/env python3
"""Draws every sample of docs/diagrams by the real binary, and makes docs/gallery.md of it.

Usage: scripts/gallery.py BINARY           make docs/gallery.md and docs/gallery/ anew
       scripts/gallery.py BINARY --check   say what is different from what is committed, and fail

Either way all pictures, PNGs too, are in target/artifacts/gallery afterwards. A sample that gives no picture,
a picture without a label of its sample, or a refusal in other words than docs/diagrams/index.json has is an error.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "docs" / "diagrams"
PICTURES = ROOT / "docs" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
SCHEMES = ("light", "dark")
LANGUAGES = {".mmd": "mermaid", ".d2": "d2"}
SVG = "{http://www.w3.org/2000/svg}"
# What nobody reads in a picture.
UNSEEN = {f"{SVG}style", f"{SVG}title", f"{SVG}desc"}


class Sample(NamedTuple):
    """One of docs/diagrams/index.json."""

    file: str
    title: str
    status: str  # in mermaid's documentation
    labels: list[str]
    refused: str | None = None  # the message, if it is not supported
    plugin: str | None = None  # why mermaid itself does not draw it

    @property
    def name(self) -> str:
        return self.file.partition(".")[0]

    @property
    def language(self) -> str:
        return LANGUAGES[Path(self.file).suffix]


class Drawn(NamedTuple):
    sample: Sample
    wrong: list[str]


def samples() -> list[Sample]:
    listed = [Sample(**entry) for entry in json.loads((SAMPLES / "index.json").read_text(encoding="utf-8"))]
    there = {file.name for file in SAMPLES.iterdir() if file.suffix in LANGUAGES}
    if there != {sample.file for sample in listed}:
        sys.exit(f"{SAMPLES}/index.json does not list what is there")
    return listed


def draw(binary: Path, folder: Path, sample: Sample) -> Drawn:
    """Draws a sample in each scheme and format, and looks at what came of it."""
    wrong = []
    for scheme in SCHEMES:
        for ending in ("svg", "png"):
            picture = folder / f"{sample.name}-{scheme}.{ending}"
            command = [binary, "render", SAMPLES / sample.file, "--theme", scheme, "--output", picture]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if sample.refused is not None:
                if done.returncode == 0 or sample.refused not in done.stderr:
                    wrong.append(f"{picture.name}: not refused by “{sample.refused}”: {done.stderr.strip()}")
            elif done.returncode != 0:
                wrong.append(f"{picture.name}: {done.stderr.strip()}")
            elif ending == "svg":
                wrong.extend(f"{picture.name}: {why}" for why in faults_of_svg(picture, sample))
            else:
                wrong.extend(f"{picture.name}: {why}" for why in faults_of_png(picture))
    return Drawn(sample, wrong)


def faults_of_svg(picture: Path, sample: Sample) -> list[str]:
    text = "".join(texts(ElementTree.parse(picture).getroot()))
    missing = [f"“{label}”" for label in sample.labels if squeezed(label) not in squeezed(text)]
    return [f"without {', '.join(missing)}"] if missing else []


def texts(element: ElementTree.Element) -> list[str]:
    if element.tag in UNSEEN:
        return []
    found = [element.text or ""]
    for child in element:
        found += [*texts(child), child.tail or ""]
    return found


def squeezed(text: str) -> str:
    """Without spaces: a label may be broken into lines anywhere."""
    return "".join(text.split())


def faults_of_png(picture: Path) -> list[str]:
    head = picture.read_bytes()[:24]
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        return ["no PNG"]
    width, height = struct.unpack(">II", head[16:24])
    return [] if min(width, height) > 50 else [f"only {width} by {height} pixels"]


def page(listed: list[Sample]) -> str:
    """docs/gallery.md."""
    mermaid = [sample for sample in listed if sample.language == "mermaid"]
    d2 = [sample for sample in listed if sample.language == "d2"]
    lines = [
        "# Gallery",
        "",
        "What `longhaul render` draws, one sample for each type of diagram. Made by `make gallery` from the sources in",
        "[`diagrams/`](diagrams); `make test` fails if the binary draws anything else. Each picture is there for light",
        "pages and for dark ones, which is what `--theme dark` is for. PNGs look the same:",
        "",
        "```sh",
        "longhaul render docs/diagrams/flowchart.mmd -o flowchart.svg",
        "longhaul render docs/diagrams/flowchart.mmd -o flowchart.png --theme dark --scale 2",
        "```",
        "",
        "Types that mermaid’s own documentation calls beta, new or experimental are marked: their language may change.",
        "",
        "| mermaid | | d2 |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {link(left)} | {link(middle)} | {link(right)} |" for left, middle, right in columns(mermaid, d2)]
    for language, part in (("mermaid", mermaid), ("d2", d2)):
        lines += ["", f"## {language}"]
        for sample in part:
            lines += ["", *section(sample)]
    return "\n".join(lines) + "\n"


def columns(mermaid: list[Sample], d2: list[Sample]) -> list[tuple[Sample | None, Sample | None, Sample | None]]:
    half = (len(mermaid) + 1) // 2

    def at(part: list[Sample], row: int) -> Sample | None:
        return part[row] if row < len(part) else None

    return [(at(mermaid[:half], row), at(mermaid[half:], row), at(d2, row)) for row in range(half)]


def link(sample: Sample | None) -> str:
    return f"[{sample.title}](#{sample.name})" if sample else ""


def section(sample: Sample) -> list[str]:
    marked = "" if sample.status == "stable" else f" ({sample.status})"
    source = (SAMPLES / sample.file).read_text(encoding="utf-8").rstrip("\n")
    lines = [f'<a id="{sample.name}"></a>', "", f"### {sample.title}{marked}", ""]
    if sample.refused is None:
        lines += [
            "<picture>",
            f'  <source media="(prefers-color-scheme: dark)" srcset="gallery/{sample.name}-dark.svg">',
            f'  <img alt="{sample.title}, drawn from the source below" src="gallery/{sample.name}-light.svg">',
            "</picture>",
        ]
    else:
        lines += [f"Not supported: “{sample.refused}”."]
    # Not marked as what it is: GitHub would draw it once more.
    return [*lines, "", f"<details><summary>{sample.file}</summary>", "", "```text", source, "```", "", "</details>"]


def committed(listed: list[Sample], drawn: Path) -> dict[Path, str]:
    """What belongs into the repository: the page, and every SVG."""
    wanted = {PAGE: page(listed)}
    for sample in listed:
        for scheme in SCHEMES if sample.refused is None else ():
            name = f"{sample.name}-{scheme}.svg"
            wanted[PICTURES / name] = (drawn / name).read_text(encoding="utf-8") + "\n"
    return wanted


def differences(wanted: dict[Path, str]) -> list[str]:
    there = {PAGE, *PICTURES.glob("*")}
    differ = [f"{path.relative_to(ROOT)}: nobody draws this" for path in sorted(there - set(wanted))]
    for path, text in wanted.items():
        if not path.is_file():
            differ.append(f"{path.relative_to(ROOT)}: is not there")
        elif path.read_text(encoding="utf-8") != text:
            differ.append(f"{path.relative_to(ROOT)}: is not what the binary draws now")
    return differ


def write(wanted: dict[Path, str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for path in set(PICTURES.glob("*")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with what is committed")
    args = parser.parse_args()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    drawn = target / "artifacts" / "gallery"
    drawn.mkdir(parents=True, exist_ok=True)
    listed = samples()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda sample: draw(args.binary.resolve(), drawn, sample), listed))
    wrong = [why for one in done for why in one.wrong]
    if not wrong:
        wanted = committed(listed, drawn)
        if args.check:
            wrong = [f"{why}; `make gallery` makes it anew" for why in differences(wanted)]
        else:
            write(wanted)
    for why in wrong:
        print(f"gallery: {why}", file=sys.stderr)
    if not wrong:
        print(f"gallery: {len(listed)} samples, all pictures in {drawn}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
