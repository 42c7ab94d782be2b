"""What three lines in a training script leave on disk: checkpoints that say what they are, and a successor that can be used."""

import copy
import json
import logging
import pickle

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    CLIPConfig,
    CLIPModel,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    pipeline,
)

import plankwise
from plankwise.errors import ConfigError

LOW = plankwise.Linear(start=0.3, full_at=0.5)


def train(ship, folder, dataset, resume=None, **changes):
    """The Trainer of a script, after its training; what is not an argument of it goes to TrainingArguments."""
    own = {key: changes.pop(key) for key in ("processing_class", "data_collator", "eval_dataset") if key in changes}
    options = {"per_device_train_batch_size": 4, "max_steps": 6, "learning_rate": 1e-2, "save_strategy": "no"}
    args = TrainingArguments(
        output_dir=str(folder), report_to="none", disable_tqdm=True, use_cpu=True, **{**options, **changes}
    )
    trainer = Trainer(model=ship, args=args, train_dataset=dataset, callbacks=[ship.callback()], **own)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def equal(one, two):
    states = one.state_dict(), two.state_dict()
    return states[0].keys() == states[1].keys() and all(torch.equal(states[1][k], v) for k, v in states[0].items())


def test_save_model_and_every_checkpoint_say_that_they_are_hybrids_and_load_as_the_successor(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=LOW)
    trainer = train(ship, tmp_path, sentences, save_strategy="steps", save_steps=3)
    trainer.save_model(str(tmp_path / "saved"))
    for name in ("saved", "checkpoint-3", "checkpoint-6"):
        assert json.loads((tmp_path / name / "config.json").read_text())["model_type"] == "plankwise-hybrid"
        with pytest.raises(ConfigError, match="is a checkpoint of a hybrid in training"):
            AutoModelForSequenceClassification.from_pretrained(tmp_path / name)
    for name in ("saved", "checkpoint-6"):
        assert equal(plankwise.load(tmp_path / name), ship.collapse())
    assert not equal(plankwise.load(tmp_path / "checkpoint-3"), ship.collapse())


def test_a_resumed_training_ends_with_the_very_weights_and_the_best_checkpoint_comes_back(bert, sentences, tmp_path):
    options = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    options |= {"load_best_model_at_end": True, "eval_dataset": sentences}
    twin = copy.deepcopy(bert)
    whole = plankwise.hybrid(bert, successors=2, schedule=LOW)
    first = train(whole, tmp_path / "whole", sentences, **options)
    resumed = plankwise.hybrid(twin, successors=2, schedule=LOW)
    train(resumed, tmp_path / "again", sentences, resume=str(tmp_path / "whole" / "checkpoint-2"), **options)
    assert equal(whole, resumed)
    assert equal(plankwise.load(first.state.best_model_checkpoint), whole.collapse())


class Texts(torch.utils.data.Dataset):
    """Texts of one length, encoded, with their labels."""

    def __init__(self, tokenizer, rows):
        self.rows = [
            {**{key: torch.tensor(value) for key, value in tokenizer(text).items()}, "labels": int(label == "positive")}
            for text, label in rows
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


WAYS = {
    "a processing class": lambda tokenizer: {"processing_class": tokenizer},
    "a collator's tokenizer": lambda tokenizer: {"data_collator": DataCollatorWithPadding(tokenizer)},
    "the model's own folder": lambda tokenizer: {},
}


@pytest.mark.parametrize("way", WAYS)
def test_three_lines_leave_a_successor_that_a_pipeline_runs_with_the_right_tokenizer(
    way, tiny, tiny_expert_folder, tmp_path
):
    tokenizer = AutoTokenizer.from_pretrained(tiny_expert_folder)
    model = AutoModelForSequenceClassification.from_pretrained(tiny_expert_folder)
    if way != "the model's own folder":
        model.config.name_or_path = ""
    rows = tiny.make_rows(8)
    ship = plankwise.hybrid(model, successors=2, schedule=LOW)
    train(ship, tmp_path, Texts(tokenizer, rows), **WAYS[way](tokenizer))
    ship.collapse().save_pretrained(tmp_path / "successor")

    successor = ship.collapse()
    answers = pipeline("text-classification", str(tmp_path / "successor"))([text for text, _ in rows])
    for (text, label), answer in zip(rows, answers, strict=True):
        with torch.no_grad():
            shares = successor(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0]
        assert answer["label"] == successor.config.id2label[int(shares.argmax())] == label
        assert answer["score"] == pytest.approx(float(shares.max()))


def test_a_trainer_that_knows_no_tokenizer_is_told_so_before_training(bert, sentences, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="plankwise"):
        train(plankwise.hybrid(bert, successors=2), tmp_path, sentences, max_steps=1)
    assert [record.message for record in caplog.records if record.name.startswith("plankwise")] == [
        "the Trainer knows no tokenizer, so none will be saved beside the successor, which cannot be used without one; "
        "give it Trainer(processing_class=tokenizer), or save it yourself: tokenizer.save_pretrained('successor')"
    ]


def test_a_tokenizer_with_more_words_than_the_model_is_not_the_models(bert, tiny_expert_folder, tmp_path):
    bert.config.name_or_path = str(tiny_expert_folder)
    bert.resize_token_embeddings(10)
    plankwise.hybrid(bert, successors=2).collapse().save_pretrained(tmp_path / "successor")
    assert not list((tmp_path / "successor").glob("*token*"))


def test_a_model_without_input_embeddings_is_saved_with_the_tokenizer_of_its_folder(tiny, tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    text = {**sizes, "vocab_size": len(tiny.words), "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    config = CLIPConfig(text_config=text, vision_config={**sizes, "image_size": 16, "patch_size": 8})
    CLIPModel(config).save_pretrained(tmp_path / "clip")
    tiny.save_tokenizer(tmp_path / "clip")
    model = CLIPModel.from_pretrained(tmp_path / "clip")
    plankwise.hybrid(model).collapse().save_pretrained(tmp_path / "successor")
    tokenizer = json.loads((tmp_path / "successor" / "tokenizer.json").read_text())
    assert tokenizer["model"]["vocab"]["fine"] == tiny.words.index("fine")


def copied(model):
    return copy.deepcopy(model)


def pickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("again", [copied, pickled])
def test_a_successor_with_its_tokenizer_is_a_model_like_any_other_and_its_copies_save_their_own_weights(
    again, tiny_expert_folder, tmp_path
):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_expert_folder)
    successor = plankwise.hybrid(model, successors=2).collapse()
    assert isinstance(successor, BertForSequenceClassification)
    assert type(successor).__name__ == "BertForSequenceClassification"
    other = again(successor)
    assert equal(other, successor)
    with torch.no_grad():
        other.classifier.bias.add_(1)
    other.save_pretrained(tmp_path)
    assert equal(BertForSequenceClassification.from_pretrained(tmp_path), other)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertForSequenceClassification"]
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("fine film") == ["fine", "film"]


def test_a_process_that_does_not_write_the_model_does_not_write_the_tokenizer(tiny_expert_folder, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_expert_folder)
    plankwise.hybrid(model, successors=2).collapse().save_pretrained(tmp_path, is_main_process=False)
    assert not list(tmp_path.iterdir())
