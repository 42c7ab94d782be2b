"""Runs that learn from changed copies of their texts, and those that cannot: refused before anything is written."""

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM

from plankwise.config import load_config
from plankwise.context import open_context
from plankwise.errors import ConfigError
from plankwise.kinds import list_kinds, load_kind
from plankwise.run.augmentation import material_of
from plankwise.run.compress import compress
from plankwise.run.inputs import read_inputs
from plankwise.task_kinds import Task

ON = ["method.name=tinybert", "method.augmentation.copies=2"]


@pytest.fixture(scope="session")
def masked_folder(tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp("models") / "masked"
    tiny.save_tokenizer(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(vocab_size=len(tiny.words), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    return folder


def test_a_run_learns_from_copies_and_says_so_and_the_truncated_model_has_as_many_steps(
    recipe, masked_folder, tiny_expert_folder
):
    text = recipe.read_text("utf-8").replace("max_steps = 2\n", "epochs = 1\nbatch_size = 8\n")
    recipe.write_text(text, "utf-8")
    model = [f"predecessor.path={tiny_expert_folder}", f"method.augmentation.model={masked_folder}"]
    record = compress(load_config(recipe, [*ON, *model, "plan.init=lower"]), Console(quiet=True))
    examples = record["task"]["train"]
    steps = -(-3 * examples // 8)
    assert list(record["stages"]) == ["augmentation", "intermediate", "prediction", "truncated"]
    assert record["steps"] == record["stages"]["truncated"]["steps"] == steps
    assert (record["augmentation"]["copies"], record["augmentation"]["texts"]) == (2, examples)
    phases = record["estimate"]["phases"]
    assert phases["augmentation"]["measured"] > 0
    assert phases["intermediate"]["steps"] + phases["prediction"]["steps"] == phases["truncated"]["steps"] == steps


def test_steps_for_int8_are_a_share_of_those_with_copies(recipe, masked_folder, tiny_expert_folder):
    text = recipe.read_text("utf-8").replace("max_steps = 2\n", "epochs = 1\nbatch_size = 8\n")
    recipe.write_text(text, "utf-8")
    model = [f"predecessor.path={tiny_expert_folder}", f"method.augmentation.model={masked_folder}"]
    more = [
        "plan.init=lower",
        "training.quantising.share=0.5",
        "evaluation.truncated=false",
        "evaluation.latency=false",
    ]
    record = compress(load_config(recipe, [*ON, *model, *more]), Console(quiet=True))
    assert record["steps"] == -(-3 * record["task"]["train"] // 8)


def test_a_predecessor_without_a_head_for_hidden_words_needs_a_model_that_has_one(refusal, tiny_model_folder):
    assert refusal(*ON) == (
        f"method.augmentation.copies is above 0, which needs a masked language model, and the predecessor {tiny_model_folder} has "
        "no trained head for that; set method.augmentation.model to the folder of a model that has one, or the copies to 0"
    )


def test_a_predecessor_with_such_a_head_is_asked_itself(recipe, masked_folder):
    config = load_config(recipe, [*ON, f"predecessor.path={masked_folder}", "plan.successors=1"])
    console = Console(quiet=True)
    inputs = read_inputs(config, open_context(console, recipe.parent / "run", 0))
    model, _ = material_of(inputs.run).open_model(None)
    wanted = AutoModelForMaskedLM.from_pretrained(masked_folder).state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("method.augmentation.model={classifier}", "which is no masked language model with a trained head"),
        ("method.augmentation.model=./nowhere", "model folder ./nowhere does not exist"),
        ("method.augmentation.vectors=none.txt", "and there is no such file; give a text file of word vectors"),
        ("method.augmentation.probability=1.5", "is 1.5; give a number of at least 0 and up to 1"),
        ("method.augmentation.copy=2", "Did you mean 'copies'?"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(override, why, refusal, masked_folder, tiny_classifier_folder):
    given = override.format(classifier=tiny_classifier_folder)
    model = [] if ".model=" in given else [f"method.augmentation.model={masked_folder}"]
    assert why in refusal(*ON, *model, given)


@pytest.mark.parametrize("kind", [name for name in list_kinds("task_kinds") if name != "labels"])
def test_other_kinds_of_task_have_no_texts_to_copy(kind):
    module = load_kind("task_kinds", kind, key="KIND")
    (found,) = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Task) and one.__module__ == module.__name__
    ]
    task = object.__new__(found)
    with pytest.raises(ConfigError, match=rf"above 0, but the task is on {kind}, and only texts .*; set it to 0"):
        task.training_table()
