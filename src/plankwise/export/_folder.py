"""What stands in an exported folder beside the model: export.json, config and tokenizer, predict.py, the card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plankwise.export import How
from plankwise.export._chain import describe_chain
from plankwise.export._traced import Traced
from plankwise.models.exits import has_exits
from plankwise.models.exported import FILE, Exported
from plankwise.models.labels import has_names
from plankwise.models.limits import token_limit
from plankwise.models.planned_config import PlannedConfig
from plankwise.models.quiet import quiet
from plankwise.models.rankers import is_ranker
from plankwise.models.sentences import SentenceEncoder
from plankwise.report.card import FILE as CARD
from plankwise.report.text import as_markdown

SCRIPT = "predict.py"
USUAL_LENGTH = 512  # of a model that does not say how many tokens it takes

HEAD = '''\
"""Predicts with this folder's model: python predict.py {usage}; needs {needs}."""

import json
import sys
from pathlib import Path

{imports}

HERE = Path(__file__).parent
about = json.loads((HERE / "export.json").read_text("utf-8"))
tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
tokenizer.enable_truncation(about["max_length"], direction=about["truncation"]{truncation})
tokenizer.enable_padding(**about["padding"])
{script}


def predict(texts):
    """The texts{form} as tokens, and the model's outputs for them by name."""
    codes = {codes}
    fields = {{"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}}
    batch = {{name: np.array([getattr(code, fields[name]) for code in codes], np.int64) for name in about["inputs"]}}
    return codes, dict(zip(about["outputs"], run(batch)))


if __name__ == "__main__":
'''


@dataclass(frozen=True)
class Reading:
    """How predict.py reads answers off what a model gives."""

    lines: str  # that predict and print
    form: str = ", or pairs of texts,"  # what `predict` is given
    codes: str = "tokenizer.encode_batch(texts)"  # what that is to the model
    truncation: str = ""  # more on how texts are cut
    usage: str = Exported.usage  # what the command is given


ALL = """\
    codes, outputs = predict(sys.argv[1:])
"""
CLASSES = Reading(
    ALL
    + """\
    for text, row in zip(sys.argv[1:], outputs["logits"]):
        shares = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        print(f"{about['labels'][row.argmax()]}\\t{shares.max():.3f}\\t{text}")
"""
)
NUMBERS = Reading(
    ALL
    + """\
    for text, row in zip(sys.argv[1:], outputs["logits"]):
        print(f"{row[0]:.4f}\\t{text}")
"""
)
RANKS = Reading(
    """\
    pairs = [(sys.argv[1], text) for text in sys.argv[2:]]
    codes, outputs = predict(pairs)
    for row in outputs["logits"][:, 0].argsort()[::-1]:
        print(f"{outputs['logits'][row, 0]:.4f}\\t{pairs[row][1]}")
""",
    usage='"a query" "a text" "another one"',
)
# A word's tag is that of its first piece; words that were cut off have none.
TAGS = Reading(
    """\
    texts = [text.split() for text in sys.argv[1:]]
    codes, outputs = predict(texts)
    for words, code, rows in zip(texts, codes, outputs["logits"]):
        firsts = {word: place for place, word in reversed(list(enumerate(code.word_ids))) if word is not None}
        tags = {word: about["labels"][rows[place].argmax()] for word, place in firsts.items()}
        print(" ".join(f"{word}/{tags[place]}" for place, word in enumerate(words) if place in tags))
""",
    form=", each a list of words,",
    codes="tokenizer.encode_batch(texts, is_pretokenized=True)",
)
MASKED = Reading(
    ALL
    + """\
    for code, rows in zip(codes, outputs["NAME"]):
        masked = [place for place, token in enumerate(code.ids) if token == about["mask_token_id"]]
        print(*(tokenizer.id_to_token(int(rows[place].argmax())) for place in masked))
"""
)
NEXT = Reading(
    ALL
    + """\
    for code, rows in zip(codes, outputs["NAME"]):
        last = max(place for place, read in enumerate(code.attention_mask) if read)
        print(tokenizer.id_to_token(int(rows[last].argmax())))
"""
)
VECTORS = Reading(
    """\
    texts = [about["prompt"] + text for text in sys.argv[1:]]
    codes, outputs = predict([text.lower() for text in texts] if about["lower"] else texts)
    for text, row in zip(sys.argv[1:], outputs["sentence_embedding"]):
        print(json.dumps([round(float(value), 6) for value in row]), text, sep="\\t")
"""
)
SPANS = Reading(
    """\
    for question, text in zip(sys.argv[1::2], sys.argv[2::2]):
        codes, outputs = predict([(question, text)])
        spans = []
        for code, starts, ends in zip(codes, outputs["start_logits"], outputs["end_logits"]):
            own = [place for place, part in enumerate(code.sequence_ids) if part == 1]
            pairs = [(one, other) for one in own for other in own if one <= other < one + 30]
            spans += [(starts[one] + ends[other], code.offsets[one][0], code.offsets[other][1]) for one, other in pairs]
        score, first, last = max(spans)
        print(f"{text[first:last]}\\t{score:.3f}\\t{question}")
""",
    form=", a question and its text each, in as many windows as that takes,",
    codes="[one for code in tokenizer.encode_batch(texts) for one in (code, *code.overflowing)]",
    truncation=', stride=about["max_length"] // 4, strategy="only_second"',
    usage='"a question" "its text"',
)
STATES = Reading(
    ALL
    + """\
    for name, values in outputs.items():
        print(name, values.shape)
"""
)


def describe(
    traced: Traced, format: str, kind: Any, how: How, files: tuple[str, ...], max_length: int | None
) -> Exported:
    """What export.json says."""
    tokenizer, limit = traced.tokenizer, token_limit(traced.model, traced.tokenizer)
    gives = _gives(traced)
    sentences = traced.model.files if isinstance(traced.model, SentenceEncoder) else None
    names = traced.model.config.id2label if gives in (CLASSES, TAGS) else {}
    return Exported(
        format=format,
        runtime=kind.RUNTIME,
        precision=how.precision,
        quantise=how.quantise,
        safe_range=how.safe_range,
        files=files,
        inputs=traced.inputs,
        outputs=traced.outputs,
        labels=tuple(str(names[index]) for index in range(len(names))),
        max_length=max_length or limit or USUAL_LENGTH,
        token_limit=limit,
        padding={
            "direction": tokenizer.padding_side,
            "pad_id": tokenizer.pad_token_id,
            "pad_type_id": tokenizer.pad_token_type_id,
            "pad_token": tokenizer.pad_token,
        },
        truncation=tokenizer.truncation_side,
        mask_token_id=tokenizer.mask_token_id,
        prompt="" if sentences is None else sentences.prompt,
        lower=sentences is not None and sentences.lower,
        usage=gives.usage,
        exits=describe_chain(traced) if is_chain(traced, kind) else None,
    )


def is_chain(traced: Traced, kind: Any) -> bool:
    """Whether the format writes this model as a chain of graphs."""
    return has_exits(traced.model) and hasattr(kind, "chain_script")


def write_texts(folder: Path, exported: Exported, traced: Traced, kind: Any) -> None:
    """Writes all that is not the model's own files."""
    with quiet():
        if not (folder / "config.json").exists():
            traced.model.config.save_pretrained(folder)
        traced.tokenizer.save_pretrained(folder)
    (folder / FILE).write_text(exported.to_json(), "utf-8")
    (folder / SCRIPT).write_text(make_script(traced, kind), "utf-8")
    (folder / CARD).write_text(make_card(exported, folder, traced, kind), "utf-8")


def make_script(traced: Traced, kind: Any) -> str:
    """predict.py for what the model gives."""
    planned = isinstance(traced.model.config, PlannedConfig)
    script = kind.chain_script() if is_chain(traced, kind) else kind.script(planned)
    packages = [*kind.NEEDS, "tokenizers", "numpy"]
    imports = ["import numpy as np", *(f"import {name}" for name in kind.NEEDS), "from tokenizers import Tokenizer"]
    reading = _gives(traced)
    head = HEAD.format(
        usage=reading.usage,
        needs=", ".join(packages[:-1]) + f" and {packages[-1]}",
        imports="\n".join(imports),
        script=script,
        form=reading.form,
        codes=reading.codes,
        truncation=reading.truncation,
    )
    return head + reading.lines.replace("NAME", _logits(traced))


def make_card(exported: Exported, folder: Path, traced: Traced, kind: Any) -> str:
    """The card as Markdown; it names no path of this machine."""
    from plankwise import __version__

    model = traced.model
    parameters = sum(one.numel() for one in model.parameters())
    way = f" ({exported.quantise} quantisation{', 7 bits for weights' if exported.safe_range else ''})"
    facts = {
        "model": f"{type(model).__name__}, {parameters / 1e6:.1f} M parameters",
        "format": exported.format,
        "precision": exported.precision + (way if exported.quantise else ""),
        "size": f"{exported.size_mb(folder):.1f} MB ({', '.join(exported.files)})",
        "inputs": f"{', '.join(exported.inputs)}: whole numbers (batch, length), both of any size",
        "outputs": ", ".join(exported.outputs),
        "texts": f"cut at {exported.max_length} tokens by predict.py",
    }
    if exported.prompt:
        facts["prompt"] = f"{exported.prompt!r}, which predict.py puts before each text"
    if exported.exits is not None:
        facts["early exits"] = (
            f"a graph for each of {exported.exits['blocks']} blocks; a text leaves once {exported.exits['patience']} answers in a "
            "row were the same as the one before (`exits.patience` in export.json, which may be changed)"
        )
    if has_names(list(exported.labels)):
        facts["classes"] = ", ".join(exported.labels)
    rows = "\n".join(f"| {name} | {as_markdown(fact)} |" for name, fact in facts.items())
    needs = " ".join([*kind.NEEDS, "tokenizers", "numpy"])
    return (
        f"---\ntags:\n- plankwise\n- {exported.format}\n---\n\n# {type(model).__name__} for {exported.runtime}\n\n"
        f"Exported by plankwise {__version__}.\n\n| | |\n|---|---|\n{rows}\n\n## How to use it\n\n"
        f"```sh\npip install {needs}\npython {SCRIPT} {exported.usage}\n```\n\n## What was checked\n\n"
        f"{_checked(exported)}\n"
    )


def _checked(exported: Exported) -> str:
    found = exported.check
    if found is None:
        return "Nothing: it was exported without `--check`."
    lines = [f"On {found['texts']:,} held-out texts, against the same model in torch:", ""]
    lines.append(f"- largest difference of a logit: {found['largest_difference']:.2g}")
    if found["equal_answers"] is not None:
        lines.append(f"- equal answers: {found['equal_answers']:.2%}")
    lines.append(f"- score: {found['score']:.4f}, in torch {found['torch_score']:.4f}")
    return "\n".join(lines)


def _logits(traced: Traced) -> str:
    return "prediction_logits" if "prediction_logits" in traced.results else "logits"


def _gives(traced: Traced) -> Reading:
    """How answers are read off what the model gives, told by the shape of its outputs."""
    logits, config = traced.results.get(_logits(traced)), traced.model.config
    if "sentence_embedding" in traced.results:
        return VECTORS
    if "start_logits" in traced.results:
        return SPANS
    if logits is None or logits.ndim not in (2, 3):
        return STATES
    if logits.ndim == 2:
        return CLASSES if logits.shape[1] > 1 else RANKS if is_ranker(config) else NUMBERS
    if logits.shape[2] == config.num_labels != config.vocab_size:
        return TAGS
    return NEXT if "CausalLM" in type(traced.model).__name__ or traced.tokenizer.mask_token_id is None else MASKED
