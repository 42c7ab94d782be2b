"""Training examples that are kept out to choose by: neither trained on nor reported, and what weights are chosen by."""

import gc
import weakref

import pytest
from rich.console import Console

from kind_examples import find_example
from plankwise.config import validate_config
from plankwise.errors import ConfigError, DataError
from plankwise.models.loading import Loader
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import read_task

WORDS = ("fine", "great", "dull", "awful", "film", "plot", "actor", "scene", "music", "end")
QUIET = Console(quiet=True)


def section_of(kind, folder):
    section = find_example(kind).section(folder)
    if kind == "embedding":  # a tenth of the texts is to have neighbours
        texts = [" ".join(WORDS[index // 10**power % 10] for power in range(3)) for index in range(300)]
        (folder / "texts.txt").write_text("\n".join(texts), "utf-8")
        section = {"name": "embedding", "path": str(folder / "texts.txt"), "dev_share": 0.2}
    return section


@pytest.fixture
def read(tmp_path, tiny_model_folder):
    def read(kind, choose_on="train", **changes):
        config = validate_config(
            {
                "task": {**section_of(kind, tmp_path), **changes},
                "predecessor": {"path": str(tiny_model_folder)},
                "training": {"max_length": 16, "batch_size": 4, "max_steps": 2},
                "evaluation": {"choose_on": choose_on},
            }
        )
        task = read_task(config, Loader().tokenizer(config.predecessor.path), QUIET)
        task.check_config(config)
        return task

    return read


def rows_of(encoded):
    return [tuple(row) for row in encoded.dataset["input_ids"]]


@pytest.mark.parametrize("kind", ["tokens", "answers", "ranking", "embedding"])
def test_what_chooses_is_neither_trained_on_nor_reported(kind, read):
    task, whole = read(kind), read(kind, "dev")
    train, chosen = rows_of(task.train), rows_of(task.choosing.held_out)
    assert chosen
    assert not set(train) & set(chosen)
    assert len(train) + len(chosen) == len(whole.train.lengths)
    assert set(train) | set(chosen) == set(rows_of(whole.train))
    assert rows_of(task.held_out) == rows_of(whole.held_out)
    assert whole.choosing is None
    assert (task.describe()["choosing"], whole.describe()["choosing"]) == (len(chosen), None)
    assert rows_of(read(kind).choosing.held_out) == chosen

    model = TorchPredictor(task.load(Loader(), task.config.predecessor.path).model.eval())
    assert {key: len(rows) for key, rows in task.choosing.outputs(model).items()} == {"dev": len(chosen)}
    found = task.score_in_training(model)
    assert found == task.choosing.score_outputs(task.choosing.outputs(model))
    assert task.score_outputs(task.outputs(model)) == whole.score_outputs(whole.outputs(model))


def test_no_query_and_no_text_of_what_chooses_is_trained_on(read):
    task = read("ranking")
    assert not set(task.examples.train["text"].to_pylist()) & set(task.choosing.candidates.queries)
    task = read("answers")
    assert not {one.article for one in task.train_questions} & {one.article for one in task.choosing.dev_questions}


@pytest.mark.parametrize(
    ("kind", "limit", "reason"),
    [
        ("tokens", 1, "1 of 1 training texts would be kept out to choose by"),
        ("answers", 1, "train has questions on 1 text, too few to keep any out to choose by; add texts"),
        ("embedding", 150, "keeps 15 of 150 training texts out to choose by, but 20 are needed"),
    ],
)
def test_too_few_examples_to_keep_any_out_are_told(kind, limit, reason, read):
    with pytest.raises(DataError, match=reason):
        read(kind, train_limit=limit)


def test_a_single_query_is_not_kept_out(read, tmp_path):
    ranked = find_example("ranking")
    one = ranked.write(tmp_path / "one.csv", "query,text,score", ranked.pairs([0]))
    with pytest.raises(
        DataError, match="of the 1 training queries none that has both relevant texts and others can be"
    ):
        read("ranking", train=str(one))


def test_a_kind_whose_examples_are_not_kept_out_says_why(read, tmp_path):
    (tmp_path / "few.txt").write_text("a film is fine\n\nthe plot was dull\n\n" * 20, "utf-8")
    section = {"name": "text", "path": str(tmp_path / "few.txt")}
    evaluation, method = {"choose_on": "train"}, {"name": "finetune"}
    config = validate_config({"task": section, "method": method, "evaluation": evaluation})
    task = read_task(config, read("tokens").tokenizer, QUIET)
    with pytest.raises(ConfigError, match="but the task is text, where no sequences are kept out"):
        task.check_config(config)


@pytest.mark.parametrize("kind", ["tokens", "answers", "ranking", "embedding"])
def test_what_another_tokenizer_makes_of_dev_is_kept_as_long_as_that_is(kind, read, tiny_model_folder):
    task = read(kind, "dev")
    own = Loader().tokenizer(str(tiny_model_folder))
    encoded = weakref.ref(task.held_out_for(own))
    assert task.held_out_for(own) is encoded()
    del own  # another may get its place in memory, with another vocabulary
    gc.collect()
    assert encoded() is None
