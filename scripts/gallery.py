#!/usr/bin/env python3
"""Renders docs/gallery.md from docs/diagrams, and the diagrams of ARCHITECTURE.md, with the real binary.

Usage: scripts/gallery.py BINARY           write docs/gallery.md, docs/gallery/ and docs/architecture/*.svg
       scripts/gallery.py BINARY --check   list differences from the committed files, and fail if there are any

All images, including PNGs, are in target/artifacts/gallery afterwards. A sample without an image, an image without
a label of its sample, and a rejection with another message than docs/diagrams/index.json has are errors.
"""

import argparse
import itertools
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
ARCHITECTURE = ROOT / "docs" / "architecture"
SCHEMES = ("light", "dark")
LANGUAGES = {".mmd": "mermaid", ".d2": "d2"}
SVG = "{http://www.w3.org/2000/svg}"
# Elements whose text is not visible.
INVISIBLE = {f"{SVG}style", f"{SVG}title", f"{SVG}desc"}


class Sample(NamedTuple):
    """An entry of docs/diagrams/index.json, or a diagram of ARCHITECTURE.md."""

    file: str
    title: str
    status: str  # in mermaid's documentation
    labels: list[str]
    refused: str | None = None  # error message, if it is not supported
    plugin: str | None = None  # reason why mermaid itself does not draw it
    sources: Path = SAMPLES
    images: Path = PICTURES

    @property
    def name(self) -> str:
        return self.file.partition(".")[0]

    @property
    def language(self) -> str:
        return LANGUAGES[Path(self.file).suffix]


def samples() -> list[Sample]:
    listed = [Sample(**entry) for entry in json.loads((SAMPLES / "index.json").read_text(encoding="utf-8"))]
    there = {file.name for file in SAMPLES.iterdir() if file.suffix in LANGUAGES}
    if there != {sample.file for sample in listed}:
        sys.exit(f"{SAMPLES}/index.json does not match the files beside it")
    return listed


def architecture() -> list[Sample]:
    return [
        Sample(file.name, file.stem, "stable", [], sources=ARCHITECTURE, images=ARCHITECTURE)
        for file in sorted(ARCHITECTURE.glob("*.mmd"))
    ]


def draw(binary: Path, folder: Path, sample: Sample) -> list[str]:
    """Renders a sample in each theme and format, and returns the faults of the images."""
    wrong = []
    for scheme in SCHEMES:
        for ending in ("svg", "png"):
            picture = folder / f"{sample.name}-{scheme}.{ending}"
            command = [binary, "render", sample.sources / sample.file, "--theme", scheme, "--output", picture]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if sample.refused is not None:
                if done.returncode == 0 or sample.refused not in done.stderr:
                    wrong.append(f"{picture.name}: not rejected with “{sample.refused}”: {done.stderr.strip()}")
            elif done.returncode != 0:
                wrong.append(f"{picture.name}: {done.stderr.strip()}")
            elif ending == "svg":
                wrong.extend(f"{picture.name}: {why}" for why in faults_of_svg(picture, sample))
            else:
                wrong.extend(f"{picture.name}: {why}" for why in faults_of_png(picture))
    return wrong


def faults_of_svg(picture: Path, sample: Sample) -> list[str]:
    text = "".join(texts(ElementTree.parse(picture).getroot()))
    missing = [f"“{label}”" for label in sample.labels if squeezed(label) not in squeezed(text)]
    return [f"without {', '.join(missing)}"] if missing else []


def texts(element: ElementTree.Element) -> list[str]:
    if element.tag in INVISIBLE:
        return []
    found = [element.text or ""]
    for child in element:
        found += [*texts(child), child.tail or ""]
    return found


def squeezed(text: str) -> str:
    """Removes white space, because a label can wrap anywhere."""
    return "".join(text.split())


def faults_of_png(picture: Path) -> list[str]:
    head = picture.read_bytes()[:24]
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        return ["is not a PNG"]
    width, height = struct.unpack(">II", head[16:24])
    return [] if min(width, height) > 50 else [f"only {width} by {height} pixels"]


def page(listed: list[Sample]) -> str:
    """Returns docs/gallery.md."""
    mermaid = [sample for sample in listed if sample.language == "mermaid"]
    d2 = [sample for sample in listed if sample.language == "d2"]
    lines = [
        "# Gallery",
        "",
        "One sample for each type of diagram that `longhaul render` supports. `make gallery` renders this page from the",
        "sources in [`diagrams/`](diagrams), and `make test` fails if the output of the binary differs. Each image has a",
        "light and a dark version (`--theme dark`). PNG output looks the same:",
        "",
        "```sh",
        "longhaul render docs/diagrams/flowchart.mmd -o flowchart.svg",
        "longhaul render docs/diagrams/flowchart.mmd -o flowchart.png --theme dark --scale 2",
        "```",
        "",
        "Types that mermaid’s documentation marks as beta, new or experimental are labelled, because their syntax may change.",
        "",
        "| mermaid | | d2 |",
        "| --- | --- | --- |",
    ]
    half = (len(mermaid) + 1) // 2
    for row in itertools.zip_longest(mermaid[:half], mermaid[half:], d2):
        lines.append(f"| {' | '.join(map(link, row))} |")
    for language, part in (("mermaid", mermaid), ("d2", d2)):
        lines += ["", f"## {language}"]
        for sample in part:
            lines += ["", *section(sample)]
    return "\n".join(lines) + "\n"


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
            f'  <img alt="{sample.title}, rendered from the source below" src="gallery/{sample.name}-light.svg">',
            "</picture>",
        ]
    else:
        lines += [f"Not supported: “{sample.refused}”."]
    # Fenced as text, because GitHub would render a mermaid block once more.
    return [*lines, "", f"<details><summary>{sample.file}</summary>", "", "```text", source, "```", "", "</details>"]


def committed(listed: list[Sample], drawn: Path) -> dict[Path, str]:
    """Returns the files of the repository: the page and every SVG."""
    wanted = {PAGE: page([sample for sample in listed if sample.images == PICTURES])}
    for sample in listed:
        for scheme in SCHEMES if sample.refused is None else ():
            name = f"{sample.name}-{scheme}.svg"
            wanted[sample.images / name] = (drawn / name).read_text(encoding="utf-8") + "\n"
    return wanted


def differences(wanted: dict[Path, str]) -> list[str]:
    there = {PAGE, *PICTURES.glob("*"), *ARCHITECTURE.glob("*.svg")}
    differ = [f"{path.relative_to(ROOT)}: has no source" for path in sorted(there - set(wanted))]
    for path, text in wanted.items():
        if not path.is_file():
            differ.append(f"{path.relative_to(ROOT)}: is missing")
        elif path.read_text(encoding="utf-8") != text:
            differ.append(f"{path.relative_to(ROOT)}: differs from what the binary renders")
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
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    args = parser.parse_args()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    drawn = target / "artifacts" / "gallery"
    drawn.mkdir(parents=True, exist_ok=True)
    listed = samples() + architecture()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = pool.map(lambda sample: draw(args.binary.resolve(), drawn, sample), listed)
        wrong = list(itertools.chain.from_iterable(faults))
    if not wrong:
        wanted = committed(listed, drawn)
        if args.check:
            wrong = [f"{why}; run `make gallery`" for why in differences(wanted)]
        else:
            write(wanted)
    for why in wrong:
        print(f"gallery: {why}", file=sys.stderr)
    if not wrong:
        print(f"gallery: {len(listed)} samples, all images in {drawn}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
