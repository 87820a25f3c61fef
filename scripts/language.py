"""Counts for tidy.py's language budget, and its reader of the glossary.

Everything here is a pure function over the tree (path -> text), so that tidy_test.py can try it on small trees.
"""

import re
from collections import defaultdict
from typing import Iterator, NamedTuple

Tree = dict[str, str]

# Texts that quote the words they forbid, or that programs generate.
EXEMPT = re.compile(r"^scripts/(tidy(_test)?|language)\.py$|/snapshots/|^docs/gallery|\.json$")


class Use(NamedTuple):
    path: str
    line: int
    text: str


def glossary(page: str) -> dict[str, str]:
    """Maps each synonym in the glossary's third column to the word that replaces it."""
    section = re.search(r"(?ms)^## Glossary\n(.*?)(?=^## |\Z)", page)
    synonyms = {}
    for row in re.findall(r"(?m)^\|(.+)\|\s*$", section.group(1) if section else ""):
        word, _, *avoid = (cell.strip() for cell in row.split("|"))
        for synonym in re.findall(r"`(\w+)`", " ".join(avoid)):
            synonyms[synonym] = word
    return synonyms


# --- the budget's counts ---

QUESTION = re.compile(r"(?i)(what|who|whom|whose|whoever|whatever|where|wherever|when|which|how|whether|why)\b")
VAGUE_ACTOR = re.compile(r"(?i)\b(whoever|nobody|somebody|everybody)\b")
TYPE = re.compile(r"(?m)^(?:pub(?:\([\w: ]+\))? )?(?:struct|enum|trait|type|union) (\w+)")
PARTICIPLE = re.compile(
    r"(?!(?:Feed|Seed|Need|Speed|Bed|Embed)$)[A-Z][a-z]+ed$"
    r"|(?:Told|Known|Found|Taken|Given|Held|Said|Heard|Shown|Kept|Made|Seen|Written|Drawn|Ran|Read|Sent|Left|Gone"
    r"|Begun|Broken|Chosen|Hidden|Undone|Meant|Put|Cut|Lost|Caught|Brought|Bound|Met|Built|Spent)$"
)  # fmt: skip
# Idioms whose meaning comes from their module: clap's arguments, a module's error and result, a handle's shared state.
IDIOMS = {"Args", "Command", "Error", "Inner", "Result"}
# An equal name is the same concept in the two stores (counted once), and in wire types (left out).
PRODUCT = re.compile(r"^crates/(?!longhaul-client/)[\w-]+/src/")
TEST = re.compile(r"/tests?(/|\.rs$)|/conformance|/fuzz|/testing")


def question_openings(tree: Tree) -> Iterator[Use]:
    """Doc comments whose first word is a question word instead of a noun or a verb."""
    for path, text in _rust(tree):
        inside = False
        for number, line in enumerate(text.splitlines(), 1):
            comment = re.match(r"\s*//[/!] ?(.*)", line)
            if comment and not inside and QUESTION.match(comment.group(1)):
                yield Use(path, number, comment.group(1))
            inside = comment is not None


def vague_actors(tree: Tree) -> Iterator[Use]:
    """Words that stand where a role belongs: client, caller, operator, tenant, worker."""
    for path, text in tree.items():
        if EXEMPT.search(path):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for match in VAGUE_ACTOR.finditer(line):
                yield Use(path, number, match.group())


def repeated_type_names(tree: Tree) -> Iterator[Use]:
    """Type names that more than one module of the product defines."""
    definitions: dict[str, list[Use]] = defaultdict(list)
    for path, text in _rust(tree):
        if not PRODUCT.search(path) or TEST.search(path):
            continue
        product = re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]
        for match in TYPE.finditer(product):
            use = Use(path, product.count("\n", 0, match.start()) + 1, match.group(1))
            if use.path not in (other.path for other in definitions[use.text]):
                definitions[use.text].append(use)
    for name, uses in sorted(definitions.items()):
        stores = [sum(f"/store/{store}" in use.path for use in uses) for store in ("sqlite", "postgres")]
        if len(uses) - min(stores) > 1 and name not in IDIOMS:
            paths = ", ".join(use.path for use in uses[1:])
            yield uses[0]._replace(text=f"{name}, also in {paths}")


def participle_type_names(tree: Tree) -> Iterator[Use]:
    """Types named by a bare participle, which does not say what they hold."""
    for path, text in _rust(tree):
        for match in TYPE.finditer(text):
            if PARTICIPLE.match(match.group(1)):
                yield Use(path, text.count("\n", 0, match.start()) + 1, match.group(1))


def _rust(tree: Tree) -> Iterator[tuple[str, str]]:
    return ((path, text) for path, text in tree.items() if path.endswith(".rs"))


COUNTS = {
    count.__name__.replace("_", "-"): count
    for count in (question_openings, vague_actors, repeated_type_names, participle_type_names)
}
