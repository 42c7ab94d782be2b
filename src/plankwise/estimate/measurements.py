"""What models are put to beside training: evaluations, during it and at the end, and latencies."""

import statistics
from contextlib import suppress
from dataclasses import replace

import torch
from torch import nn

from plankwise.config import EvaluationOptions
from plankwise.estimate.phases import EVALUATIONS, LATENCY, Estimate, Phase
from plankwise.estimate.timing import Timing
from plankwise.estimate.work import Weights, padded_tokens
from plankwise.evaluation.latency import WARM_UP, measure_latency
from plankwise.evaluation.multiply_adds import count_multiply_adds
from plankwise.runtimes import Batch, Outputs, Predictor
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import Task


def add_measurements(
    estimate: Estimate, models: dict[str, nn.Module], counts: dict[str, int], task: Task, options: EvaluationOptions
) -> None:
    """Adds what evaluations and latencies will take, and the multiply-adds of a prediction.

    `counts`: how many models of each one's size are evaluated at the end, and have their latency measured.
    """
    weights = {name: Weights(model.eval()).forward() for name, model in models.items()}
    tokens = sum(padded_tokens(encoded.lengths, options.batch_size).sum() for encoded in task.dev.values())
    passed = estimate.evaluated + sum(counts[name] * weights[name] for name in models)
    timing = Timing(estimate.budget, float(tokens * passed))
    with suppress(_EnoughError):
        for name, model in models.items():
            task.score(_TimedPredictor(model, weights[name], timing))
    estimate.phases[EVALUATIONS] = Phase(timing.seconds)

    texts = task.timed()
    lengths = texts.count_tokens()
    middle = statistics.median_low(lengths)
    one = replace(texts, texts=[texts.texts[lengths.index(middle)]])
    inputs = one.encode(one.texts)
    estimate.prediction = {"tokens": middle} | {name: count_multiply_adds(models[name], inputs) for name in models}

    if options.latency:
        predictors: dict[str, Predictor] = {name: TorchPredictor(model) for name, model in models.items()}
        alone = measure_latency(predictors, one, batch_sizes=[1], predictions=3, references={}).latency
        seconds = 0.0
        for size in options.latency_batch_sizes:
            padded = statistics.fmean(max(lengths[start : start + size]) for start in range(0, len(lengths), size))
            for name in models:
                # Large batches run at the pace of an evaluation; none is faster than a text by itself.
                once = max(alone[name]["1"]["mean_ms"] / 1000, timing.pace * weights[name] * size * padded)
                seconds += counts[name] * once
        # As many rounds as were asked for; a busy machine takes up to four times as many.
        estimate.phases[LATENCY] = Phase(seconds * (options.latency_predictions + WARM_UP))


class _EnoughError(Exception):
    """Enough batches have been timed: the evaluation need not go on."""


class _TimedPredictor(TorchPredictor):
    """Times the batches of an evaluation, and ends it when that is enough."""

    def __init__(self, module: nn.Module, weights: float, timing: Timing) -> None:
        super().__init__(module)
        self.weights = weights
        self.timing = timing

    def __call__(self, inputs: Batch, chosen: torch.Tensor | None = None) -> Outputs:
        outputs = super().__call__(inputs, chosen)
        self.wait()
        self.timing.add(self.weights * next(iter(inputs.values())).shape[:2].numel())
        if self.timing.enough:
            raise _EnoughError
        return outputs
