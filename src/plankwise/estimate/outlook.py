"""What comes after training: the last evaluations, the latencies, and what a prediction takes."""

import statistics
from typing import Any

from torch import nn

from plankwise.config import EvaluationOptions
from plankwise.data.encode import Encoded
from plankwise.estimate.notebook import EVALUATIONS, FLOOR, LATENCY, Notebook
from plankwise.estimate.rehearsal import Scoring
from plankwise.evaluation.cost import count_multiply_adds
from plankwise.evaluation.latency import WARM_UP, count_tokens, measure_latency
from plankwise.examples._base import Examples
from plankwise.examples.labelled import Labelled

PREDECESSOR, SUCCESSOR = "predecessor", "successor"


def scoring_of(examples: Examples, batch_size: int) -> Scoring:
    """What an evaluation on these examples reads."""
    dev: list[Encoded] = list(examples.scorer.dev.values()) if isinstance(examples, Labelled) else [examples.held_out]
    return Scoring(examples.score, dev, batch_size)


def look_ahead(
    notebook: Notebook,
    models: dict[str, nn.Module],
    method: str,
    tokenizer: Any,
    texts: list[tuple[str, ...]],
    *,
    max_length: int,
    options: EvaluationOptions,
) -> None:
    """Adds to the notebook what is done with `predecessor` and `successor` once they are trained; `method` is the phase that
    trains the successor."""
    for model in models.values():
        model.cpu()
    lengths = count_tokens(tokenizer, texts, max_length)
    tokens = statistics.median_low(lengths)
    middle = texts[lengths.index(tokens)]
    inputs = tokenizer(*([part] for part in middle), truncation=True, max_length=max_length, return_tensors="pt")
    counts = {name: count_multiply_adds(model, inputs) for name, model in models.items()}
    notebook.predictions |= {"tokens": tokens, **counts}

    once = dict(notebook.evaluation)
    counted = notebook.evaluation[method] * counts[PREDECESSOR] / counts[SUCCESSOR]
    guarded = PREDECESSOR in once  # a predecessor that is trained here is looked at once more
    ends = [once[method], *([once[FLOOR]] if FLOOR in once else []), *[once.get(PREDECESSOR, counted)] * (1 + guarded)]
    stages = notebook.phases.pop(EVALUATIONS).multiply_adds
    notebook.add(EVALUATIONS, stages + sum(ends))

    if options.latency:
        notebook.tell(LATENCY)
        alone = measure_latency(models, tokenizer, [middle], max_length=max_length, batch_sizes=[1], predictions=1)
        for size in options.latency_batch_sizes:
            padded = statistics.fmean(max(lengths[start : start + size]) for start in range(0, len(lengths), size))
            for name in [PREDECESSOR, SUCCESSOR, *([SUCCESSOR] if FLOOR in once else [])]:
                counted = counts[name] * size * padded / tokens
                # Large batches run at the pace of an evaluation; none is faster than a text by itself.
                seconds = max(alone[name]["1"]["mean_ms"] / 1000, notebook.forward_rate * counted)
                notebook.add(LATENCY, counted, seconds, times=options.latency_predictions + WARM_UP)
