"""The code blocks of README.md and of docs/, run page by page in their order, on small models and tables of the names they use.

A `python` block is executed; a `toml` block is written to the file in its title, or to the file that the next command names; each
`plankwise` line of a `sh` block is run in this process. A block that cannot be run here has a comment before it that says why:
`<!-- not run: needs a network -->`.
"""

import json
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent / "task_kinds"))
import example_answers
import example_ranking
import example_translation

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r'^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w+)(?: title="(?P<title>[^"\n]+)")?\n(?P<text>.*?)^```',
    re.DOTALL | re.MULTILINE,
)
RUN = ("python", "toml", "sh")
ROWS = 60
MOST_NOT_RUN = 10  # blocks in all pages together
# Added to every recipe where it says nothing else, so that it takes a second.
QUICK = {
    "predecessor": {"training": {"max_steps": 20, "learning_rate": 3e-3, "batch_size": 8}},
    "evaluation": {"latency_predictions": 1, "latency_batch_sizes": [1], "truncated": False, "estimate": False},
}
# The last of two counts; peaks of memory, a part of cost, are measured in processes of their own, which takes long.
LESS = {
    "compare": ("--seeds", "1"),
    "analyse": ("--predictions", "1", "--only", "errors,inside"),
    "sweep": ("--trials", "1"),
    "frontier": ("--depths", "1", "--formats", "onnx", "--no-thin", "--predictions", "1"),
    "plan --target": ("--target", "1.01", "--parts", "layers", "--spans", "2", "--plans", "1", "--random", "0"),
}  # by words of a command
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 12, "max_position_embeddings": 512}
RECIPE = """
[predecessor]
path = "my-finetuned-bert"
[task]
name = "table"
train = "train.csv"
text = "sentence"
label = "label"
[plan]
successors = 6
[training]
epochs = 1
max_length = 64
"""


class Block(NamedTuple):
    language: str
    title: str | None
    text: str
    reason: str | None  # why it is not run


def blocks_of(path: Path) -> list[Block]:
    found = FENCE.finditer(path.read_text("utf-8"))
    return [Block(one["language"], one["title"], one["text"], one["reason"]) for one in found]


def commands_of(block: Block) -> list[str]:
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def write_csv(path: Path, columns: str, rows: list[tuple]) -> None:
    path.write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n", "utf-8")


def save_encoder(tiny, folder: Path, **sizes: int) -> None:
    """A model that tells good words from bad ones, with its tokenizer and without a head."""
    from transformers import BertModel

    tiny.save_expert(folder, **sizes)
    BertModel.from_pretrained(folder).save_pretrained(folder)


def save_decoder(tiny, folder: Path) -> None:
    """An untrained decoder with a tokenizer."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tiny.save_tokenizer(folder)
    sizes = {"n_embd": 16, "n_layer": 4, "n_head": 2, "n_positions": 64}
    GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **sizes)).save_pretrained(folder)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory, tiny) -> Path:
    """A folder with what the pages expect a reader to have: models, tables, and one finished run."""
    folder = tmp_path_factory.mktemp("reader")
    tiny.save_expert(folder / "my-finetuned-bert", names=("LABEL_0", "LABEL_1"), **SIZES)
    save_encoder(tiny, folder / "my-encoder", **{**SIZES, "num_hidden_layers": 4})
    save_encoder(tiny, folder / "google-bert" / "bert-base-uncased", **SIZES)
    for settings in folder.rglob("tokenizer_config.json"):
        settings.write_text(json.dumps({**json.loads(settings.read_text("utf-8")), "model_max_length": 512}), "utf-8")
    drawn = [(text, ("negative", "positive").index(label)) for text, label in tiny.make_rows(2 * ROWS)]
    rows, others = drawn[:ROWS], drawn[ROWS:]
    for name, own in {"train": rows, "dev": others, "new": others}.items():
        write_csv(folder / f"{name}.csv", "sentence,label", own)
    pairs, other_pairs = ([(*text.rsplit(" ", 1), label) for text, label in own] for own in (rows, others))
    write_csv(folder / "pairs.csv", "premise,hypothesis,label", pairs)
    write_csv(folder / "numbers.csv", "first,second,similarity", [(*pair[:2], 5 * pair[2]) for pair in pairs])
    (folder / "RTE").mkdir()
    for name, own in {"train": pairs, "dev": other_pairs, "test": other_pairs}.items():
        header = "index\tsentence1\tsentence2" + ("" if name == "test" else "\tlabel")
        classes = ("entailment", "not_entailment")
        lines = [
            "\t".join([str(index), first, second, *([] if name == "test" else [classes[label]])])
            for index, (first, second, label) in enumerate(own)
        ]
        (folder / "RTE" / f"{name}.tsv").write_text("\n".join([header, *lines]) + "\n", "utf-8")
    for name, own in {"train": rows, "dev": others}.items():
        tagged = [[(word, "B-WORD" if word == text.split()[-1] else "O") for word in text.split()] for text, _ in own]
        texts = ["".join(f"{word}\t{tag}\n" for word, tag in text) for text in tagged]
        (folder / f"{name}.conll").write_text("\n".join(texts), "utf-8")
    (folder / "corpus.txt").write_text("\n".join(text for text, _ in rows), "utf-8")
    save_decoder(tiny, folder / "my-decoder")
    example_translation.model(folder / "my-translator")
    made = example_translation.pairs(64)
    for name, own in {"train": made[:48], "dev": made[48:]}.items():
        for language, side in (("en", 0), ("de", 1)):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in own), "utf-8")
    for name, queries in {"train": range(20), "dev": range(20, 30)}.items():
        example_ranking.write(folder / f"ranking-{name}.csv", "query,text,score", example_ranking.pairs(queries))
    example_answers.write(folder / "xquad.en.json", example_answers.articles(14))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_recipe(folder / "recipe.toml", RECIPE)
        run_command("plankwise compress recipe.toml", patch)
    return folder


@pytest.fixture
def place(furnished, tmp_path, monkeypatch) -> Path:
    """A copy of that folder, in which a page is followed."""
    folder = tmp_path / "reader"
    shutil.copytree(furnished, folder)
    monkeypatch.chdir(folder)
    return folder


def run_command(line: str, patch: pytest.MonkeyPatch) -> None:
    from plankwise.cli import main

    words = shlex.split(line, comments=True)
    less = [options for key, options in LESS.items() if set(key.split()) <= set(words)]
    patch.setattr(sys, "argv", [*words, *sum(less, ())])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    assert code == 0, line


def hastened(data: dict) -> dict:
    """A recipe's data with QUICK where they say nothing."""
    return {**data, **{section: {**keys, **data.get(section, {})} for section, keys in QUICK.items()}}


def hasten_python(patch: pytest.MonkeyPatch) -> None:
    """Lets `plankwise.compress` and `plankwise.compare` be as quick as the commands are."""
    from plankwise.api import comparing, compressing

    for module in (comparing, compressing):
        patch.setattr(module, "gather", lambda *given, gather=module.gather: hastened(gather(*given)))


def write_recipe(path: Path, text: str) -> None:
    """The recipe as it stands in the page, and what makes it quick; an earlier run of that name goes."""
    import tomli_w

    path.write_text(tomli_w.dumps(hastened(tomllib.loads(text))), "utf-8")
    shutil.rmtree(path.parent / "runs" / path.stem, ignore_errors=True)


def use_toml(block: Block, later: list[Block], place: Path, patch: pytest.MonkeyPatch) -> None:
    """A complete recipe is written for the commands; a part of one is checked; a pyproject.toml is installed."""
    from plankwise.config import validate_config

    data = tomllib.loads(block.text)
    if "project" in data:
        install(data["project"], place, patch)
        return
    named = [word for one in later if one.language == "sh" for word in one.text.split() if word.endswith(".toml")]
    validate_config(data)
    if block.title or ("task" in data and named):
        write_recipe(place / (block.title or named[0]), block.text)


def install(project: dict, place: Path, patch: pytest.MonkeyPatch) -> None:
    """What pip leaves of a distribution whose modules lie in this folder: its name and its entry points."""
    folder = place / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {module}\n" for name, module in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(groups))
    patch.syspath_prepend(str(place))


@pytest.mark.parametrize(
    "path", [path for path in PAGES if any(one.language in RUN for one in blocks_of(path))], ids=name_of
)
def test_the_blocks_of_a_page_run_in_their_order(path, place, monkeypatch):
    names: dict = {"__name__": path.stem}
    blocks = [block for block in blocks_of(path) if block.reason is None]
    hasten_python(monkeypatch)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for index, block in enumerate(blocks):
        if block.language == "toml":
            use_toml(block, blocks[index:], place, monkeypatch)
        elif block.language == "python":
            if block.title:
                (place / block.title).parent.mkdir(exist_ok=True)
                (place / block.title).write_text(block.text, "utf-8")
            exec(compile(block.text, name_of(path), "exec"), names)
        elif block.language == "sh":
            for line in commands_of(block):
                tool, *words = line.split()
                if tool == "plankwise":
                    run_command(line, monkeypatch)
                else:
                    assert tool == "make", f"{line!r} is not run; mark the block with a reason"
                    assert set(words) <= targets


def test_few_blocks_are_not_run():
    left_out = [block for path in PAGES for block in blocks_of(path) if block.reason]
    assert all(block.language in RUN for block in left_out)
    assert len(left_out) <= MOST_NOT_RUN


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_fence_is_understood(path):
    """A fence that the pattern misses, an indented one for example, would not be run, and nobody would know."""
    fences = re.findall(r"^\s*```", path.read_text("utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(blocks_of(path))
    markers = re.findall(r"<!-- not run", path.read_text("utf-8"))
    assert len(markers) == sum(block.reason is not None for block in blocks_of(path))
