"""PD-BERT (Turc et al. 2019, arXiv:1908.08962): a student learns its language, then the predecessor's answers, then labels.

Stage `pretraining`: masked language modelling on texts; stage `distillation`: T² · KL(predecessor's softmax at T || student's
softmax at T) on a transfer set, no label is read; stage `finetuning`: the task's loss. Texts are the task's own, or those of a
file.

A classifier has no head for hidden tokens: one is trained beside the student and thrown away. It is a dense map that starts as the
identity, GELU, LayerNorm and the student's own embeddings. Unlike in the paper, the student starts as the plan says, from the
predecessor, unless plan.init = "random"; and all three stages share one budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.errors import ConfigError
from plankwise.methods._matching import check_spans, pair_blocks
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.data.encode import Encoded
    from plankwise.task_kinds import Collate, Loss
    from plankwise.training.job import Job, Outcome
    from plankwise.training.stage import Stage, StageResult
    from plankwise.training.targets import Targets


class Options(SectionOptions):
    name: Literal["pd"] = Field("pd", description="this method")
    pretraining: float = Field(0.3, ge=0, lt=1, description="share of the steps that hidden tokens are predicted in")
    distillation: float = Field(
        0.4, ge=0, le=1, description="share of the steps that the predecessor's logits alone are learnt in, after that"
    )
    texts: str | None = Field(
        None,
        description="a utf-8 text file, one text a line, for both; none: the task's training texts",
    )
    mask_share: float = Field(0.15, gt=0, lt=1, description="of a text's tokens that are hidden")
    T: float = Field(1.0, gt=0, description="temperature")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return True


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan; trains all of it on hidden tokens, on logits alone, then on labels.

    Raises:
        ConfigError: the shares leave less than nothing, or the tokenizer has no mask token.
    """
    from plankwise.training.targets import read_logits

    shares = _divide(options)
    if options.pretraining:
        check_spans(job.plan, options.name, "leave method.pretraining at 0")
    start = job.start(gains=True)
    stages = {stage.name: stage for stage in start.stages(shares)}
    given = _read_given(job, stages, options)
    targets = None
    if "distillation" in stages:
        stages["distillation"] = on_transfer_set(stages["distillation"], given)
        targets = stages["distillation"].targets(job.predecessor, read_logits)
    student = truncate(start)
    results = []
    for name, stage in stages.items():
        if name == "pretraining":
            last = pair_blocks(job.predecessor, job.plan, "top")[-1][-1][1]
            results.append(pretrain(stage, student, last, given, job.held_out, options.mask_share, job.max_length))
        else:
            loss = imitating(targets, options.T) if name == "distillation" and targets else None
            results.append(stage.run(student, loss=loss, reads_first_token=True))
    notes: dict[str, Any] = {"targets": targets.to_json(stages["distillation"].passes)} if targets else {}
    return start.outcome(student, *results, **notes)


def _divide(options: Options) -> dict[str, float]:
    left = 1 - options.pretraining - options.distillation
    if left < -1e-9:
        raise ConfigError(
            f"method.pretraining is {options.pretraining:g} and method.distillation is {options.distillation:g}, which is more "
            "than all steps; choose shares that add up to 1 at most"
        )
    shares = {"pretraining": options.pretraining, "distillation": options.distillation, "finetuning": left}
    return {name: share for name, share in shares.items() if share > 1e-9}


def _read_given(job: Job, stages: dict[str, Stage], options: Options) -> Encoded | None:
    """The texts of the file that was given, encoded; none if there is no file."""
    import pyarrow as pa

    from plankwise.data.encode import encode
    from plankwise.training.fitting import read_texts

    tokenizer = next(iter(stages.values())).tokenizer
    if "pretraining" in stages and tokenizer.mask_token_id is None:
        raise ConfigError(
            f"method.pretraining is {options.pretraining:g}, but the predecessor's tokenizer has no mask token to hide words by; "
            "set method.pretraining = 0, or use a model that has one"
        )
    if options.texts is None:
        return None
    return encode(pa.table({"text": read_texts(options.texts, "method.texts")}), tokenizer, job.max_length)


def on_transfer_set(stage: Stage, given: Encoded | None) -> Stage:
    """The stage on texts alone, its own or those given, for as many steps; it is scored as before."""
    from dataclasses import replace

    texts = stage.with_steps(stage.num_steps).on_texts(stage.score)
    return replace(texts, show=stage.show, train=texts.train if given is None else given)


def imitating(targets: Targets, T: float) -> Loss:  # noqa: N803
    """The distance from the predecessor's logits and nothing else; for logits of every token, of those that are not padding."""
    from plankwise.training.losses import kd_loss

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        logits = model(**inputs)["logits"]
        target = targets.take("logits", rows, like=logits)
        if logits.dim() > 2:
            real = inputs["attention_mask"].bool()
            logits, target = logits[real], target[real]
        return kd_loss(logits, target, T)

    return loss


def pretrain(
    stage: Stage,
    student: nn.Module,
    last: str,
    given: Encoded | None,
    held_out: Encoded,
    mask_share: float,
    max_length: int,
) -> StageResult:
    """Trains a student to predict hidden tokens; the best weights lose least on held-out texts. `last`: its last block."""
    from dataclasses import replace

    import torch

    from plankwise.data.batch import examples_of, without_labels
    from plankwise.data.encode import ROW
    from plankwise.data.masking import IGNORED
    from plankwise.training.fitting import first_texts

    head = make_head(student, last, stage)
    texts = stage.on_texts(lambda model: {"score": -stage.context.on_main(measure)})
    texts = replace(texts, train=texts.train if given is None else given, weigh=lambda batch: count(batch["labels"]))
    texts = replace(texts, collate=hiding(texts, texts.train, mask_share, max_length))
    held = without_labels(first_texts(held_out))
    collate = hiding(texts, held, mask_share, max_length)(lambda: 0)

    def count(labels: torch.Tensor) -> float:
        return float((labels != IGNORED).sum())

    with hidden_loss(student, head, last) as loss:

        def measure() -> float:
            student.eval()
            head.eval()
            total, tokens, device = 0.0, 0.0, next(student.parameters()).device
            with torch.inference_mode():
                for first in range(0, len(held.lengths), 64):
                    rows = list(range(first, min(first + 64, len(held.lengths))))
                    examples = examples_of(held.dataset, rows)
                    batch = collate([{**one, ROW: row} for one, row in zip(examples, rows, strict=True)]).to(device)
                    batch.pop(ROW)
                    number = count(batch["labels"])
                    total += number * float(loss(student, dict(batch), torch.tensor(rows)))
                    tokens += number
            head.train()
            return total / tokens

        return texts.run(student, loss=loss, modules={"head": head})


def hiding(stage: Stage, texts: Encoded, share: float, max_length: int) -> Collate:
    """Makes batches of texts in which tokens are hidden, by the seed, the epoch and the text alone; `labels` are those."""
    import numpy as np
    import torch

    from plankwise.data.batch import plain_collator
    from plankwise.data.encode import ROW
    from plankwise.data.masking import IGNORED, Batcher, Masking

    pad = plain_collator(texts, stage.tokenizer)

    def collate(epoch: Callable[[], int]) -> Callable[[list[dict]], Any]:
        masking = Masking(share, seed=stage.context.seed)
        batcher = Batcher(stage.tokenizer, "mlm", masking, max_length, epoch=epoch)

        def make(examples: list[dict]) -> Any:
            hidden = [batcher.hide(np.asarray(one["input_ids"], np.int64), one[ROW]) for one in examples]
            batch = pad([{**one, "input_ids": ids.tolist()} for one, (ids, _) in zip(examples, hidden, strict=True)])
            labels = torch.full_like(batch["input_ids"], IGNORED)
            labels[batch["attention_mask"].bool()] = torch.from_numpy(np.concatenate([wanted for _, wanted in hidden]))
            batch["labels"] = labels
            return batch

        return make

    return collate


@contextmanager
def hidden_loss(student: nn.Module, head: nn.Module, last: str) -> Iterator[Loss]:
    """The mean cross-entropy of the tokens that have a label; `head` reads them off the states behind the block at `last`."""
    from torch.nn import functional

    from plankwise.core.taps import tapped
    from plankwise.data.masking import IGNORED

    with tapped(student, [last]) as states:

        def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
            labels = inputs["labels"]
            model(**{name: value for name, value in inputs.items() if name != "labels"})
            chosen = labels != IGNORED
            answers = functional.linear(
                head(states[last][chosen]),
                student.get_input_embeddings().weight,  # type: ignore[operator]
            )
            return functional.cross_entropy(answers.float(), labels[chosen])

        yield loss


def make_head(student: nn.Module, block: str, stage: Stage) -> nn.Module:
    """From states behind a block to vectors that are compared with the student's embeddings of tokens; drawn from no chance."""
    import torch
    from torch import nn

    from plankwise.core.taps import tapped

    parameter = next(student.parameters())
    with tapped(student, [block]) as states, torch.no_grad():
        student.eval()(**stage.sample(parameter.device))
        width = states[block].shape[-1]
    inner = student.get_input_embeddings().weight.shape[1]  # type: ignore[operator]
    dense = nn.Linear(width, inner)
    nn.init.eye_(dense.weight)
    nn.init.zeros_(dense.bias)
    return nn.Sequential(dense, nn.GELU(), nn.LayerNorm(inner)).to(parameter.device)
