"""What has to be said beside a figure, in one wording for page, card, tables and terminal.

A model that is not shown to know more than one answer for everything; guards that were ignored; that dev chose the checkpoint.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from plankwise.report.text import MODELS, duration, is_number, number, share

MARK = "*"  # beside a share that is not an achievement; a remark below says why
ADVICE = "train longer (training.epochs), cut less (plan.successors) or try another training.learning_rate"
UNTRAINED_ADVICE = "train it (another method.name) or cut less (plan.successors)"
WHOLE_ADVICE = "train it longer (predecessor.training.epochs) or with another predecessor.training.learning_rate"
NO_ROW = "no row is shown to have learnt the task"


def has_learnt(model: Mapping) -> bool:
    """Whether nothing speaks against it: the model beats a constant answer, or nobody has tested it."""
    found = model.get("beyond_constant")
    return found is None or bool(found["shown"])


def constant_remark(model: Mapping) -> str:
    """What a model is called that is not shown to beat a constant answer; empty for all others."""
    if has_learnt(model):
        return ""
    found = model["beyond_constant"]
    if found.get("answered") == 1:
        return f"answers only '{found['most_answered']}'"
    scores = found.get("constant_shown") or number(found["constant_score"])
    return f"not shown to be better than always answering {found['constant']} ({scores})"


def constant_claim(model: Mapping) -> str:
    """The same as the end of a sentence that begins with the model."""
    remark = constant_remark(model)
    return remark if not remark or remark.startswith("answers") else f"is {remark}"


def is_untrained(record: Mapping) -> bool:
    """Whether the run's method trained nothing, and so the truncated model beside it was not trained either."""
    return record.get("steps") == 0


def like_the_successor(record: Mapping) -> str:
    """How the truncated model was trained: as the successor was."""
    return "without training" if is_untrained(record) else "trained as long"


def what_to_do(record: Mapping, name: str) -> str:
    """How the record's model of that name would learn more."""
    if name in ("predecessor", "model"):
        return WHOLE_ADVICE
    return UNTRAINED_ADVICE if is_untrained(record) else ADVICE


def vocabulary_remark(model: Mapping) -> str:
    """How many tokens of the vocabulary were kept, and what that saves; empty for a model that has them all."""
    found = model.get("vocabulary")
    if not found:
        return ""
    return (
        f"its vocabulary was trimmed to {found['tokens']:,} of {found['tokens_before']:,} tokens, which saves "
        f"{number(found['saved_mb'], 1)} MB"
    )


def remarks(record: Mapping) -> list[str]:
    """A sentence for every model that is not shown to beat a constant answer, and for every guard that was ignored."""
    told = [
        f"the {'truncated model' if name == 'truncated' else name} {constant_claim(record[name])}: {what_to_do(record, name)}"
        for name in MODELS
        if name in record and not has_learnt(record[name])
    ]
    return told + guard_remarks(record.get("ignored_guards") or {})


def guard_remarks(ignored: Mapping[str, str]) -> list[str]:
    """A sentence for every guard that evaluation.ignore_guards names and that had something to say."""
    return [f"the guard {name} was ignored (evaluation.ignore_guards): {fault}" for name, fault in ignored.items()]


def zeros_remark(notes: Mapping) -> str:
    """What the zeros of a pruned model bring, by what its training noted; empty for all others."""
    found = notes.get("zeros") or {}
    if not found.get("zeros"):
        return ""
    return (
        f"{share(found['zeros'] / found['weights'])} of the weights in its blocks are 0, which alone brings neither speed nor "
        "size: parameters count them, and time is that of the whole matrices"
    )


def bits_remark(notes: Mapping) -> str:
    """What rounded weights bring, by what their training noted; empty for all others."""
    found = notes.get("bits")
    if not found:
        return ""
    return (
        f"weights have {number(found['mean'], 2)} bits on average in blocks, {found['embeddings']} in embedding tables and "
        f"{found['head']} in the head's matrices, packed on disk; it computes in float32, so that it is smaller to store and to "
        "send, but neither faster nor smaller in memory"
    )


def exits_remark(model: Mapping) -> str:
    """After which blocks the dev examples left a model with early exits; empty for all others."""
    found = model.get("exits")
    if not found:
        return ""
    blocks, total = found["blocks"], max(1, sum(found["blocks"]))
    left = [f"block {block}: {share(count / total)}" for block, count in enumerate(blocks, 1) if count]
    return (
        f"with patience {found['patience']} dev examples left after {', '.join(left)}; {number(found['mean_block'], 2)} of "
        f"{len(blocks)} blocks ran for one on average"
    )


def show_retained(model: Mapping, value: object) -> str:
    """The share of the predecessor's score that a model keeps, marked if it is not an achievement."""
    return share(value) if has_learnt(model) or not is_number(value) else f"{share(value)}{MARK}"


def seeds_remark(models: Sequence[Mapping]) -> str:
    """What several seeds of one row are called, those that are not shown to beat a constant answer; empty if all are."""
    told = [remark for model in models if (remark := constant_remark(model))]
    if not told:
        return ""
    apart = " / ".join(dict.fromkeys(told))
    return apart if len(told) == len(models) else f"{len(told)} of {len(models)} seeds: {apart}"


def has_learnt_in_most(models: Sequence[Mapping]) -> bool:
    """Whether nothing speaks against more than half of a row's seeds."""
    return sum(map(has_learnt, models)) * 2 > len(models) or not models


def held_back_remark(model: Mapping) -> str:
    """That dev chose the model's checkpoint, and what the half says that did not; empty if that is not known."""
    found = model.get("held_back")
    if not found:
        return ""
    return (
        f"dev chose among {found['chosen_among']} evaluations; the score on a half of dev that did not choose is "
        f"{number(found['score'])}"
    )


def held_back_median(models: Sequence[Mapping]) -> float | None:
    """The median over a row's seeds of what the half says that did not choose; None if a seed does not say."""
    found = [one["score"] for model in models if (one := model.get("held_back"))]
    return median(found) if found and len(found) == len(models) else None


def held_back_note(rows: Sequence[tuple[str, float | None]]) -> str:
    """A table's footnote from the labels of its rows and their medians of `held_back_median`; empty if no row has one."""
    told = ", ".join(f"{label} {number(value)}" for label, value in rows if value is not None)
    return (
        f"dev chose each row's checkpoint; medians of the score on a half of dev that did not choose: {told}"
        if told
        else ""
    )


def steps_remark(record: Mapping) -> str:
    """How many steps the method took; of one without steps, what it did instead."""
    if not is_untrained(record):
        return f"{record['steps']} steps, {record['skipped_steps']} of them skipped: no slot was replaced"
    seconds, solving = duration(own_seconds(record)), record.get("solving")
    if not solving:
        return f"no training: the successor took {seconds}"
    head = f", its head on {solving['head']['examples']:,} labels" if solving.get("head") else ""
    return f"no training: the successor was solved in {seconds}, on {solving['texts']:,} texts without labels{head}"


def training_time(record: Mapping, *, without: str = "") -> str:
    """How long each model was trained, the successor first; the total where the record does not tell them apart."""
    by = record.get("seconds_by") or {}
    names = [name for name in ("successor", "predecessor", "truncated") if name in by and name != without]
    return ", ".join(f"{name} {duration(by[name])}" for name in names) or f"{duration(record.get('seconds'))} in all"


def own_seconds(record: Mapping) -> float | None:
    """What the successor's own training took; the total where the record does not tell it apart."""
    return (record.get("seconds_by") or {}).get("successor", record.get("seconds"))
