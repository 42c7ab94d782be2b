"""Copies of training examples: labels and pairs, what is kept and taken again, and what the methods do with them."""

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
import torch
from rich.console import Console
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertTokenizer

from plankwise.augmentation_options import AugmentationOptions
from plankwise.config import FitOptions, PlanOptions
from plankwise.context import Context
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.data.augment import MaskedModel
from plankwise.data.encode import encode
from plankwise.errors import ConfigError, DataError, RunError
from plankwise.estimate.phases import Estimate
from plankwise.estimate.rehearsal import RehearsedStage
from plankwise.methods import kd, tinybert
from plankwise.training.augmentation import CANDIDATES, NAME, Material, augment
from plankwise.training.job import Job
from plankwise.training.stage import Stage
from plankwise.training.trainer import StageTrainer

SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32}
TWO = AugmentationOptions(copies=2, candidates=3, probability=0.5)


def score(model):
    return {"score": sum(float(value.double().abs().sum()) for value in model.state_dict().values())}


@pytest.fixture
def tokenizer(tmp_path, tiny):
    tiny.save_tokenizer(tmp_path / "tokenizer")
    return BertTokenizer.from_pretrained(tmp_path / "tokenizer")


@pytest.fixture
def material(tokenizer, tiny):
    """16 texts with labels, or pairs of them, and an untrained masked language model; counts how often it is opened."""

    def make(*, pairs=False, seed=0):
        rows = [(text, int(label == "positive")) for text, label in tiny.make_rows(16)]
        columns = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
        if pairs:
            columns["text_pair"] = columns["text"][::-1]
        torch.manual_seed(seed)
        model = BertForMaskedLM(BertConfig(vocab_size=len(tiny.words), num_hidden_layers=1, **SIZES))
        return Material(lambda: pa.table(columns), lambda given: (model, tokenizer))

    return make


@pytest.fixture
def make_stage(tmp_path, tokenizer):
    def make(material, name=NAME, seed=3, **options):
        return Stage(
            name=name,
            train=encode(material.table(), tokenizer, 16),
            score=score,
            tokenizer=tokenizer,
            options=FitOptions(**{"batch_size": 8, "learning_rate": 1e-2, **options}),
            folder=tmp_path / "checkpoints" / name,
            context=Context(Console(quiet=True), tmp_path, seed=seed),
        )

    return make


def rows_of(encoded, tokenizer):
    dataset = encoded.dataset
    return [
        (tokenizer.decode(ids, skip_special_tokens=True).split(), label)
        for ids, label in zip(dataset["input_ids"][:], dataset["labels"][:], strict=True)
    ]


@pytest.mark.parametrize("pairs", [False, True])
def test_each_example_stands_as_it_is_and_then_its_copies_with_its_label(pairs, material, make_stage, tokenizer):
    given = material(pairs=pairs)
    stage = make_stage(given)
    rows = rows_of(augment(stage, given, TWO, 16).examples, tokenizer)
    assert rows[:16] == rows_of(stage.train, tokenizer)
    assert len(rows) == 48
    changed = set()
    for number, (words, label) in enumerate(rows[16:]):
        own, own_label = rows[number // 2]
        assert label == own_label
        assert len(words) == len(own)
        changed |= {place for place, (new, old) in enumerate(zip(words, own, strict=True)) if new != old}
    assert changed >= ({3, 7} if pairs else {3})  # the last words of texts, which are never function words


def test_copies_are_the_same_again_without_asking_the_model_and_others_by_another_seed(material, make_stage, tokenizer):
    given = material()
    stage = make_stage(given)
    first = augment(stage, given, TWO, 16)
    asked = replace(given, open_model=lambda path: pytest.fail("asked again"))
    again = augment(stage, asked, TWO, 16)
    assert rows_of(first.examples, tokenizer) == rows_of(again.examples, tokenizer)
    assert (first.stage, first.notes) == (again.stage, again.notes)
    assert first.notes["texts"] == 16
    assert 16 <= first.notes["words"] <= 64
    assert first.notes["candidates_per_word"] == 3
    other = augment(make_stage(given, seed=4), asked, TWO, 16)
    assert rows_of(first.examples, tokenizer) != rows_of(other.examples, tokenizer)


def test_what_is_stopped_in_the_middle_leaves_nothing_and_is_the_same_afterwards(
    material, make_stage, tokenizer, monkeypatch
):
    given = material()
    stage = make_stage(given)

    def stopped(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MaskedModel, "predict", stopped)
        with pytest.raises(KeyboardInterrupt):
            augment(stage, given, TWO, 16)
    assert not list(stage.folder.iterdir())
    found = rows_of(augment(stage, given, TWO, 16).examples, tokenizer)
    elsewhere = replace(stage, folder=stage.folder.parent / "elsewhere")
    assert found == rows_of(augment(elsewhere, given, TWO, 16).examples, tokenizer)


def test_what_is_damaged_or_of_other_texts_is_refused(material, make_stage):
    given = material()
    stage = make_stage(given)
    augment(stage, given, TWO, 16)
    table = given.table()
    in_another_order = table.take([*range(1, table.num_rows), 0])
    for others in (table.slice(1), in_another_order):
        with pytest.raises(RunError, match=r"is of other texts than the task's; delete .*checkpoints and run"):
            augment(stage, replace(given, table=lambda others=others: others), TWO, 16)
    file = stage.folder / CANDIDATES
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="is damaged"):
        augment(stage, given, TWO, 16)


def test_word_vectors_may_come_from_a_file(material, make_stage, tokenizer, tmp_path, monkeypatch):
    given = material()
    monkeypatch.setattr("plankwise.data.augment.whole_words", lambda tokenizer: {})  # as if all words were several
    (tmp_path / "glove.txt").write_text("fine 1 0\ngreat 1 0.1\ndull 0 1\nawful 0.1 1\n", "utf-8")
    options = AugmentationOptions(copies=1, candidates=1, probability=1, vectors=str(tmp_path / "glove.txt"))
    rows = rows_of(augment(make_stage(given), given, options, 16).examples, tokenizer)
    swapped = {"fine": "great", "great": "fine", "dull": "awful", "awful": "dull"}
    for (old, _), (new, _) in zip(rows[:16], rows[16:], strict=True):
        assert new == [swapped.get(word, word) for word in old]
    anew = replace(make_stage(given), folder=tmp_path / "anew")
    options = options.model_copy(update={"vectors": str(tmp_path / "none.txt")})
    with pytest.raises(DataError, match=r"method\.augmentation\.vectors is .*none\.txt, which cannot be read"):
        augment(anew, given, options, 16)


def test_a_stage_on_more_examples_is_scored_as_often_and_has_as_many_steps_unless_they_are_epochs(material, make_stage):
    given = material()
    for options, steps in (({"max_steps": 6}, 6), ({"epochs": 2}, 12)):
        stage = make_stage(given, "stage", **options)
        more = stage.on_more(augment(make_stage(given), given, TWO, 16).examples)
        assert (more.num_steps, more.num_evaluations) == (steps, steps // 2)
        assert stage.on_more(stage.train).num_evaluations == stage.num_evaluations


def test_an_estimate_has_a_phase_for_candidates_and_steps_of_all_copies(material, make_stage, monkeypatch):
    monkeypatch.setattr("plankwise.estimate.rehearsal.TRIED_TOKENS", 20)
    given, found = material(), Estimate()
    stage = make_stage(given)
    rehearsed = RehearsedStage(**vars(stage), estimate=found, predecessor=torch.nn.Linear(1, 1))
    examples = augment(rehearsed, given, TWO, 16).examples
    assert found.phases[NAME].seconds > 0
    assert found.memory[NAME]["weights"] > 0
    assert len(examples.lengths) == len(examples.dataset) == 48
    assert not list(stage.folder.iterdir())
    without = RehearsedStage(**vars(stage), estimate=None, predecessor=torch.nn.Linear(1, 1))
    assert len(augment(without, given, TWO, 16).examples.lengths) == 48


@pytest.fixture
def make_job(material, make_stage, tiny):
    def make(**options):
        given = material()
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(vocab_size=len(tiny.words), num_hidden_layers=4, **SIZES))
        stage = make_stage(given, "any", **options)

        def named(name):
            return replace(stage, name=name, folder=stage.folder.parent / name)

        plan = even_plan(find_chains(model.eval()), 2)
        options = PlanOptions(init="lower")
        return Job(model, plan, options, 3, 16, stage.train, named, material=given)

    return make


@pytest.mark.parametrize(("method", "names"), [(tinybert, ["intermediate", "prediction"]), (kd, ["kd"])])
def test_all_stages_of_a_method_learn_from_the_copies_and_its_start_does_not(method, names, make_job, monkeypatch):
    seen, run = [], Stage.run

    def spy(self, *args, **kwargs):
        seen.append((self.name, len(self.train.lengths)))
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Stage, "run", spy)
    job = make_job(max_steps=4)
    fitted = replace(job, options=PlanOptions(init="fitted", fitting={"share": 0.25}))
    outcome = method.compress(fitted, method.Options(augmentation=TWO))
    assert seen == [("fitting", 16), *((name, 48) for name in names)]
    assert list(outcome.stages) == [NAME, "fitting", *names]
    assert outcome.steps == 4
    assert outcome.notes[NAME]["copies"] == 2


def test_with_probability_0_the_copies_change_nothing_but_how_often_examples_are_seen(make_job):
    outcome = kd.compress(make_job(epochs=1), kd.Options(augmentation={"copies": 2, "probability": 0}))
    assert outcome.steps == 6


def test_a_method_that_was_killed_goes_on_to_the_same_weights_with_the_same_copies(make_job, monkeypatch):
    def compress():
        job = make_job(max_steps=6, save_every=1)
        return tinybert.compress(job, tinybert.Options(augmentation=TWO)).successor.state_dict()

    step, left = StageTrainer.training_step, iter(range(4))

    def stopping(*args, **kwargs):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(StageTrainer, "training_step", stopping)
        with pytest.raises(KeyboardInterrupt):
            compress()
    resumed = compress()
    shutil.rmtree(make_job().stage("any").folder.parent)
    whole = compress()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_a_job_without_texts_is_refused(make_job):
    with pytest.raises(ConfigError, match=r"no texts that could be copied; set method\.augmentation\.copies to 0"):
        kd.compress(replace(make_job(), material=None), kd.Options(augmentation=TWO))
