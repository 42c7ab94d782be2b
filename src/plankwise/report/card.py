"""The model card: README.md beside the successor's weights, with the scores in the hub's metadata format."""

import json
import re
from pathlib import Path

from plankwise.files import write_text
from plankwise.record import Shown
from plankwise.report.remarks import (
    MARK,
    bits_remark,
    exits_remark,
    guard_remarks,
    has_learnt,
    held_back_remark,
    is_untrained,
    like_the_successor,
    remarks,
    show_retained,
    vocabulary_remark,
)
from plankwise.report.speed import show_speedup, speedup_of
from plankwise.report.text import MODELS, as_markdown, count, is_number, number
from plankwise.report.verdict import score_name, show_score, verdict

FILE = "README.md"
# What the hub calls a pipeline, where that is not the tag in words.
PIPELINES = {"fill-mask": "Masked language modelling"}
QUESTIONS = "question-answering"  # which transformers has no pipeline for any more
SIMILARITY = "sentence-similarity"
TRANSLATION = "translation"  # transformers has no pipeline for it
RANKING = "text-ranking"  # nor for this
LIBRARIES = {
    SIMILARITY: "sentence-transformers",
    RANKING: "sentence-transformers",
}  # that load a model, where it is not transformers
# Names of metrics as the hub knows them; any other is written as it is.
METRICS = {"matthews": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr"}
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")


def write_card(record: dict, folder: Path) -> Path:
    """Writes README.md into `folder`; gives its path.

    Raises:
        RunError: the folder cannot be written to.
    """
    write_text(folder / FILE, make_card(record))
    return folder / FILE


def make_card(record: dict) -> str:
    """The card as Markdown; it names no path of this machine."""
    return f"---\n{_front_matter(record)}---\n\n{_body(record)}"


def base_model(record: dict) -> str | None:
    """The predecessor's name on the hub; None for a folder or the model that comes with the demo."""
    path = str(record.get("config", {}).get("predecessor", {}).get("path") or "")
    folder_like = path in ("embedded", "") or path.startswith((".", "/", "~")) or Path(path).exists()
    return path if HUB_NAME.fullmatch(path) and not folder_like and path.split("/")[0] != "runs" else None


def _front_matter(record: dict) -> str:
    task, pipeline = record["task"], Shown.of(record).pipeline
    name = PIPELINES.get(pipeline, pipeline.replace("-", " ").capitalize())
    metrics = "".join(
        f"    - type: {_quote(METRICS.get(name, name))}\n      value: {value!r}\n      name: {_quote(f'{name} on dev')}\n"
        for name, value in _metrics(record).items()
    )
    base = base_model(record)
    return (
        f"library_name: {LIBRARIES.get(pipeline, 'transformers')}\n"
        f"pipeline_tag: {_quote(pipeline)}\n"
        + (f"base_model: {_quote(base)}\n" if base else "")
        + "tags:\n- plankwise\n- model-compression\n- module-replacing\n"
        + f"model-index:\n- name: {_quote(_name(record))}\n  results:\n  - task:\n      type: {_quote(pipeline)}\n"
        + f"      name: {_quote(name)}\n    dataset:\n      name: {_quote(task.get('name', 'unknown'))}\n"
        + f"      type: {_quote(_dataset_type(task))}\n      split: dev\n"
        + (f"    metrics:\n{metrics}" if metrics else "    metrics: []\n")
    )


def _quote(text: object) -> str:
    """A string as YAML reads it back, whatever is in it: a JSON string is one."""
    return json.dumps(str(text))


def _name(record: dict) -> str:
    name = str(record.get("config", {}).get("run", {}).get("name") or "successor")
    return name.replace("\\", "/").rpartition("/")[2] or "successor"


def _dataset_type(task: dict) -> str:
    """The name without anything but letters, digits, dashes and slashes, as the hub's names are."""
    return re.sub(r"[^A-Za-z0-9/_-]+", "-", str(task.get("name", "unknown"))).strip("-/") or "unknown"


def _metrics(record: dict) -> dict[str, float]:
    model = record.get("successor") or record["model"]
    found = {name: value for name, value in (model.get("metrics") or {}).items() if is_number(value)}
    return found or ({"score": model["score"]} if is_number(model.get("score")) else {})


def _body(record: dict) -> str:
    return "\n\n".join(
        [
            f"# {as_markdown(_name(record))}",
            as_markdown(verdict(record)),
            f"## How it was made\n\n{_how(record)}",
            f"## Scores on dev\n\n{_table(record)}",
            f"## How to load it\n\n{_loading(record)}",
            f"## Limits\n\n{_limits(record)}\n",
        ]
    )


def _how(record: dict) -> str:
    config = record.get("config") or {}
    method = config.get("method", {}).get("name", "")
    version = (record.get("machine", {}).get("versions") or {}).get("plankwise")
    tool = "plankwise" if version is None else f"plankwise {as_markdown(version)}"
    base = base_model(record)
    start = f"from `{base}`" if base else "from a model that is not on the hub"
    slots = record.get("plan") or []
    lines = [f"Made by {tool}, {start}, on the task {as_markdown(record['task'].get('name', ''))}."]
    if slots:
        steps = "without training," if is_untrained(record) else f"in {record.get('steps', 0):,} steps"
        blocks = sum(max(1, len(slot.get("span") or [])) for slot in slots)
        lines.append(
            f"{blocks} modules of the predecessor were replaced by {len(slots)} successors (method: {as_markdown(method)}), "
            f"{steps} with seed {as_markdown(record.get('seed'))}."
        )
    if rounded := (record.get("stages") or {}).get("quantising"):
        lines.append(
            f"In the last {rounded['steps']:,} of the steps it was trained for int8, in which it can be exported."
        )
    if trimmed := vocabulary_remark(record.get("successor") or {}):
        lines.append(f"{trimmed[0].upper()}{trimmed[1:]}: use the tokenizer in this folder, not the predecessor's.")
    if few := bits_remark(record):
        lines.append(f"{few[0].upper()}{few[1:]}.")
    if left := exits_remark(record.get("successor") or record["model"]):
        lines.append(f"Texts leave it early, once their answer has stopped changing: {left}.")
    return " ".join(lines)


def _table(record: dict) -> str:
    lines = [
        f"| model | parameters | size | {as_markdown(score_name(record))} | retained | speed-up |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in MODELS:
        if name in record:
            model = record[name]
            kept = model.get("retained", 1.0 if name == "predecessor" else None)
            cells = [name, count(model.get("parameters")), f"{number(model.get('size_mb'), 1)} MB"]
            cells += [
                show_score(record, model),
                _cell(show_retained(model, kept)),
                show_speedup(speedup_of(record, name)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lower = f"\n\ntruncated: the predecessor's lower blocks alone, {like_the_successor(record)}."
    note = lower if "truncated" in record else ""
    if any(not has_learnt(record[name]) for name in MODELS if name in record):
        note += f"\n\n{as_markdown(MARK)} {as_markdown('; '.join(remarks({**record, 'ignored_guards': {}})))}."
    return "\n".join(lines) + note


def _cell(text: str) -> str:
    return text.replace(MARK, as_markdown(MARK))


def _loading(record: dict) -> str:
    model = record.get("successor") or record["model"]
    first = "import plankwise  # knows what the model is made of\n" if model.get("planned") else ""
    if Shown.of(record).pipeline == SIMILARITY:
        return (
            f"```python\n{first}from sentence_transformers import SentenceTransformer\n\n"
            'model = SentenceTransformer("path/to/this/folder")\nvectors = model.encode(["a text", "another one"])\n```'
        )
    if Shown.of(record).pipeline == RANKING:
        return (
            f"```python\n{first}from sentence_transformers import CrossEncoder\n\n"
            'model = CrossEncoder("path/to/this/folder")\n'
            'ranked = model.rank("a query", ["a text", "another one"])\n```'
        )
    if Shown.of(record).pipeline == QUESTIONS:
        return (
            f"```python\n{first}from transformers import AutoModelForQuestionAnswering, AutoTokenizer\n\n"
            'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n'
            'model = AutoModelForQuestionAnswering.from_pretrained("path/to/this/folder")\n```'
        )
    if Shown.of(record).pipeline == TRANSLATION:
        return (
            f"```python\n{first}from transformers import AutoModelForSeq2SeqLM, AutoTokenizer\n\n"
            'model = AutoModelForSeq2SeqLM.from_pretrained("path/to/this/folder")\n'
            'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n'
            'written = model.generate(**tokenizer(["a text"], return_tensors="pt"))\n```'
        )
    return (
        f"```python\n{first}from transformers import pipeline\n\n"
        f'model = pipeline({_quote(Shown.of(record).pipeline)}, model="path/to/this/folder")\n```'
    )


def _limits(record: dict) -> str:
    dev = record["task"].get("dev")
    examples = sum(value for value in dev.values() if is_number(value)) if isinstance(dev, dict) else dev
    size = f" {examples:,} held-out" if is_number(examples) else " held-out"
    chose = "" if is_untrained(record) else " that also chose the best checkpoint"
    lines = [
        f"- The scores are from one run with one seed on{size} {as_markdown(Shown.of(record).unit)}{chose}; "
        "other data may give others.",
        "- Whatever the predecessor gets wrong, and whatever its training texts were biased towards, the successor inherits.",
    ]
    if held_back := held_back_remark(record.get("successor") or record["model"]):
        lines.append(f"- {held_back[0].upper()}{held_back[1:]}.")
    lines += [
        f"- {as_markdown(told[0].upper() + told[1:])}." for told in guard_remarks(record.get("ignored_guards") or {})
    ]
    length = record.get("config", {}).get("training", {}).get("max_length")
    if length:
        lines.append(f"- Texts were cut at {as_markdown(length)} tokens.")
    if (faster := speedup_of(record)) is not None:
        doubt = f" ({faster.doubt})" if faster.doubt else ""
        lines.append(f"- The speed-up was measured on one machine{doubt}; another has another.")
    return "\n".join(lines)
