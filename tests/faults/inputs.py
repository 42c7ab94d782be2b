"""Bad input, made up by hypothesis: configs, recipes, tables, corpora, records, plans and files of a run's folder."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

from plankwise.config import DEFAULT_KINDS, RunConfig
from plankwise.options import walk

# Text that has caused trouble somewhere: formulas, markup, paths, brackets, zero bytes, halves of characters, long words.
ODD = [
    "",
    "..",
    "../../x",
    "=1+1",
    "<script>",
    "${HOME}",
    "%s{0}",
    "\0",
    "\ud800",
    "\ufeff",
    "nan",
    "1e999",
    "x" * 5000,
    "-",
    "٣",
]
texts = st.one_of(st.sampled_from(ODD), st.text(max_size=20))
numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, -1, 0, 2**63, 1e308]))
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
junk = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)

SECTIONS = {name: (lambda: None) for name in DEFAULT_KINDS}
KEYS = [key for key, _ in walk(RunConfig)] + [f"{section}.name" for section in DEFAULT_KINDS]
KEYS += [f"task.{key}" for key in ("train", "dev", "text", "label", "labels", "encoding", "quoting", "kind", "metric")]
KEYS += [f"method.{key}" for key in ("mode", "schedule", "alpha", "T", "unfreeze")]
KINDS = {"task": ["table", "glue", "text", "reviews", "germeval"], "method": ["replacing", "kd", "pkd", "exits"]}


@st.composite
def configs(draw: Any) -> dict:
    """Nested data with known keys, some of them spelt otherwise, and values of any kind."""
    data: dict = {}
    for section, kinds in KINDS.items():
        if draw(st.booleans()):
            data[section] = {"name": draw(st.sampled_from(kinds))}
    for _ in range(draw(st.integers(1, 5))):
        *parents, last = draw(st.sampled_from(KEYS)).split(".")
        place = data
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                break
        else:
            place[last if draw(st.booleans()) else draw(st.sampled_from([last, last[:-1], f"{last}s", "x"]))] = draw(
                junk
            )
    return data


overrides = st.builds(
    lambda key, value: f"{key}={value}", st.one_of(st.sampled_from(KEYS), texts), st.one_of(texts, junk.map(repr))
)


def changed(text: bytes) -> st.SearchStrategy[bytes]:
    """The text with pieces of it cut out, doubled or replaced by any bytes."""

    def change(edits: list[tuple[int, int, bytes]]) -> bytes:
        found = text
        for start, length, new in edits:
            start %= len(found) + 1
            found = found[:start] + new + found[start + length :]
        return found

    odd = [
        b"\0",
        b"\xff",
        b'"',
        b"\n",
        b"\r",
        b",",
        b"{",
        b"\\ud800",
        b"[" * 2000,
        b"\xef\xbb\xbf",
        "é".encode(),
        b"\t",
    ]
    pieces = st.one_of(st.binary(max_size=6), st.sampled_from(odd))
    return st.lists(st.tuples(st.integers(0, 400), st.integers(0, 8), pieces), min_size=1, max_size=4).map(change)


CSV = b"sentence,label\n" + b"".join(b"a film %d,%s\n" % (i, (b"good", b"bad")[i % 2]) for i in range(8))
TABLES = {
    ".csv": CSV,
    ".tsv": CSV.replace(b",", b"\t"),
    ".jsonl": b"".join(b'{"sentence": "a film %d", "label": %d}\n' % (i, i % 2) for i in range(8)),
}
tables = st.sampled_from(list(TABLES)).flatmap(lambda ending: st.tuples(st.just(ending), changed(TABLES[ending])))
layouts = st.fixed_dictionaries(
    {},
    optional={
        "encoding": st.sampled_from(["utf-8", "latin-1", "utf-16", "cp1252", "utf-7", "ascii", "shift_jis"]),
        "quoting": st.booleans(),
        "header": st.booleans(),
        "separator": st.sampled_from([";", "\t", " "]),
    },
)

RECIPE = b"""[run]\nname = "x"\nseed = 3\n[task]\nname = "table"\ntrain = "reviews.csv"\ntext = "sentence"\nlabel = "label"
[plan]\nsuccessors = 2\n[method]\nname = "replacing"\nschedule = { kind = "linear", start = 0.3 }\n"""
recipes = changed(RECIPE)

slots = st.fixed_dictionaries(
    {},
    optional={
        "path": st.one_of(
            texts, st.sampled_from(["bert.encoder.layer", "bert.encoder.layer.*.attention", "bert", "*"])
        ),
        "span": st.one_of(junk, st.lists(st.integers(-2, 9), max_size=4)),
        "part": st.one_of(texts, st.sampled_from(["layers", "thin", "linear", "identity", "low_rank"])),
        "options": junk,
    },
)
plans = st.one_of(junk, st.lists(st.one_of(slots, junk), max_size=4))
sections = st.fixed_dictionaries(
    {},
    optional={
        "successors": st.integers(-1, 9),
        "spans": st.lists(st.lists(st.integers(-1, 6), max_size=4), max_size=4),
        "slots": st.lists(slots, max_size=3),
        "chains": st.lists(texts, max_size=2),
        "cut": st.sampled_from(["even", "late"]),
        "part": st.sampled_from(["layers", "thin", "linear", "identity", "low_rank", "shared"]),
    },
)


@st.composite
def damaged(draw: Any, record: dict) -> dict:
    """A record in which up to three values, at any depth, are others or gone."""
    found = copy.deepcopy(record)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = found
        for _ in range(draw(st.integers(0, 5))):
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            inner = [key for key in keys if isinstance(place[key], dict | list) and place[key]]
            if not inner:
                break
            place = place[draw(st.sampled_from(inner))]
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            continue
        key = draw(st.sampled_from(keys))
        if draw(st.booleans()):
            place[key] = draw(junk)
        else:
            del place[key]
    return found


def as_json(value: Any) -> st.SearchStrategy[bytes]:
    return changed(json.dumps(value).encode())
