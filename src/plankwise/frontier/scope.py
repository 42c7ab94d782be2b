"""What of a frontier a task allows: what is refused before anything is trained, and what is left out with a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plankwise.errors import ConfigError
from plankwise.frontier.models import EXITS, distilled, with_exits
from plankwise.frontier.text_models import check_static
from plankwise.run.inputs import Run


@dataclass(frozen=True)
class Scope:
    """What a frontier has of what was asked for."""

    formats: tuple[str, ...]
    tfidf: bool
    static: bool
    truncated: bool  # and distilled
    trimmed: bool
    left_out: tuple[str, ...]  # sentences, each on something else


def find_scope(
    run: Run,
    *,
    formats: Sequence[str],
    static: bool,
    static_from: str | None,
    trimmed: bool,
    exits: bool,
    encoders: Sequence[str],
) -> Scope:
    """What the run's kind of task allows.

    Raises:
        PlankwiseError: it does not allow what is never asked for but on purpose, or a package is missing.
    """
    task, plain = run.task, run.task.plain_texts()
    left_out: list[str] = []
    if exits:
        _allow(run, EXITS)
    for path in encoders:
        _check_encoder(run, path)
    if plain is None:
        if static_from is not None:
            raise ConfigError(
                f"--embeddings is {static_from!r}, but a task on {task.kind} has no row of static embeddings, which take a "
                "class or a vector for each text; leave it out"
            )
        left_out.append(
            f"tfidf and static, which take a class or a vector for each text, and the task is on {task.kind}"
        )
    elif static:
        check_static()
    if not (is_distilled := _is_taken(run)):
        left_out.append(f"truncated-kd, since distillation (kd) is not offered for a task on {task.kind}")
    if formats and task.needs_torch is not None:
        left_out.append(f"{' and '.join(formats)}, since {task.needs_torch}; points are in torch alone")
    elif formats and trimmed and task.needs_tokens is not None:
        left_out.append(f"trimmed vocabularies, since the task is on {task.kind}, where {task.needs_tokens}")
    return Scope(
        formats=tuple(formats) if task.needs_torch is None else (),
        tfidf=plain is not None and plain.classes is not None,
        static=static and plain is not None,
        truncated=is_distilled,
        trimmed=trimmed and task.needs_tokens is None,
        left_out=tuple(left_out),
    )


def _allow(run: Run, option: str) -> None:
    try:
        run.task.check_config(with_exits(run.config, 1))
    except ConfigError as error:
        raise ConfigError(f"--{option} is given, but {error}; leave it out") from None


def _is_taken(run: Run) -> bool:
    try:
        run.task.check_config(distilled(run.config, 1))
    except ConfigError:
        return False
    return True


def _check_encoder(run: Run, path: str) -> None:
    """Lets an encoder pass that can be trained on the task, and scored beside the predecessor."""
    task = run.task
    if task.imitation is not None:
        raise ConfigError(
            f"--encoder is {path!r}, but the task is on {task.kind}, which has no labels to train an encoder on; leave it out"
        )
    if task.needs_tokens is not None and run.own_tokenizer(path) is not None:
        raise ConfigError(
            f"--encoder is {path!r}, which has other tokens than the predecessor, but the task is on {task.kind}, where "
            f"{task.needs_tokens}; give an encoder with the predecessor's tokenizer"
        )
