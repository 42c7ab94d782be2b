"""PD-BERT: the losses of its stages written out, what it degenerates to, what it reads, and what it refuses."""

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from plankwise.data.encode import ROW
from plankwise.errors import ConfigError, DataError
from plankwise.methods import finetune, kd, pd
from plankwise.methods.finetune import truncate
from plankwise.training.stage import Stage

LAST = "bert.encoder.layer.1"


def same_weights(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def test_the_first_stages_loss_is_the_mean_over_hidden_tokens_by_the_students_own_embeddings(make_job):
    job = make_job(init="lower")
    stage, student = job.stage("pretraining"), truncate(job.start()).eval()
    head = pd.make_head(student, LAST, stage)
    torch.nn.init.normal_(head[0].weight)
    examples = [{**stage.train.dataset[row], ROW: row} for row in (5, 0, 17)]
    for example in examples:
        del example["labels"]
    batch = dict(pd.hiding(stage, stage.train, 0.4, 16)(lambda: 0)(examples))
    batch.pop(ROW)
    with pd.hidden_loss(student, head, LAST) as loss:
        found = loss(student, batch, torch.arange(3))
    plain = {name: value for name, value in batch.items() if name != "labels"}
    states = student.bert(**plain).last_hidden_state
    losses = []
    for row, place in (batch["labels"] != -100).nonzero().tolist():
        mapped = functional.gelu(states[row, place] @ head[0].weight.T + head[0].bias)
        mapped = (mapped - mapped.mean()) / (mapped.var(correction=0) + 1e-5).sqrt()
        answers = student.bert.embeddings.word_embeddings.weight @ mapped
        losses.append(-answers.log_softmax(0)[batch["labels"][row, place]])
    torch.testing.assert_close(found, torch.stack(losses).mean())


def test_what_is_hidden_is_a_share_of_the_words_and_depends_on_epoch_and_text_alone(make_job):
    stage = make_job().stage("pretraining")
    examples = [{"input_ids": list(stage.train.dataset[row]["input_ids"]), ROW: row} for row in range(8)]

    def hide(chosen, epoch=0):
        return pd.hiding(stage, stage.train, 0.4, 16)(lambda: epoch)(chosen)

    whole, alone = hide(examples), hide(examples[3:4])
    length = len(examples[3]["input_ids"])
    assert torch.equal(whole["labels"][3, :length], alone["labels"][0])
    assert torch.equal(whole["input_ids"][3, :length], alone["input_ids"][0])
    assert not torch.equal(whole["labels"], hide(examples, epoch=1)["labels"])
    for example, labels in zip(examples, whole["labels"], strict=True):
        ids, hidden = torch.tensor(example["input_ids"]), labels[: len(example["input_ids"])] != -100
        assert int(hidden.sum()) == max(1, round(0.4 * (len(ids) - 1)))  # [CLS] is special
        assert torch.equal(labels[: len(ids)][hidden], ids[hidden])
        assert not hidden[0]
        assert (labels[len(ids) :] == -100).all()


def test_the_second_stages_loss_is_the_divergence_alone(make_job):
    class Kept:
        def take(self, name, rows, like):
            return wanted[rows]

    job = make_job()
    wanted = torch.tensor([[0.3, -1.0], [2.0, 0.5], [0.0, 0.1]])
    inputs = {"input_ids": torch.arange(5, 20).view(3, 5), "attention_mask": torch.ones(3, 5, dtype=torch.long)}
    found = pd.imitating(Kept(), 2.0)(job.predecessor, inputs, torch.arange(3))
    p, q = (wanted / 2).softmax(1), (job.predecessor(**inputs).logits / 2).softmax(1)
    torch.testing.assert_close(found, 4 * (p * (p / q).log()).sum() / 3)


def test_without_its_first_two_stages_it_is_fine_tuning_to_the_bit(make_job):
    plain = finetune.compress(make_job(init="lower"), finetune.Options()).successor
    outcome = pd.compress(make_job(init="lower"), pd.Options(pretraining=0, distillation=0))
    assert same_weights(plain, outcome.successor)


def test_the_second_stage_alone_is_kd_without_labels_to_the_bit(make_job):
    model = make_job().predecessor
    plain = kd.compress(make_job(copy.deepcopy(model), init="lower"), kd.Options(alpha=1, T=2.0)).successor
    options = pd.Options(pretraining=0, distillation=1, T=2.0)
    outcome = pd.compress(make_job(copy.deepcopy(model), init="lower"), options)
    assert same_weights(plain, outcome.successor)


def test_hidden_tokens_are_learnt_and_the_head_of_the_task_is_left_for_later(make_job):
    job = make_job(training={"max_steps": 30, "evaluate_every": 5}, init="lower")
    before = job.predecessor.classifier.weight.clone()
    outcome = pd.compress(job, pd.Options(pretraining=0.6, distillation=0.2))
    assert [(stage.name, stage.steps) for stage in outcome.stages.values()] == [
        ("pretraining", 18),
        ("distillation", 6),
        ("finetuning", 6),
    ]
    scores = [entry["eval_score"] for entry in outcome.stages["pretraining"].history if "eval_score" in entry]
    assert scores[-1] > scores[0]
    assert not torch.equal(outcome.successor.classifier.weight, before)
    assert not hasattr(outcome.successor, "head")


def test_texts_of_a_file_are_read_in_both_stages_and_need_no_labels(make_job, tmp_path, monkeypatch):
    file, seen = tmp_path / "texts.txt", []
    file.write_text("1 2 3 4\n5 6 7\n8 9 10 11 12\n", "utf-8")
    run = Stage.run

    def spy(self, *args, **kwargs):
        seen.append((self.name, len(self.train.lengths), "labels" in self.train.dataset.column_names))
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Stage, "run", spy)
    assert pd.compress(make_job(init="lower"), pd.Options(texts=str(file))).steps == 6
    assert seen == [("pretraining", 3, False), ("distillation", 3, False), ("finetuning", 48, True)]
    with pytest.raises(DataError, match=r"method\.texts is .*none\.txt, which cannot be read"):
        pd.compress(make_job(), pd.Options(texts=str(tmp_path / "none.txt")))


def test_shares_beyond_all_steps_and_a_tokenizer_without_a_mask_are_refused(make_job):
    with pytest.raises(
        ConfigError, match=r"method\.pretraining is 0\.6 and method\.distillation is 0\.5, which is more"
    ):
        pd.compress(make_job(), pd.Options(pretraining=0.6, distillation=0.5))
    job = make_job(init="lower")
    stage = job.stage

    def without_mask(name):
        found = stage(name)
        found.tokenizer.mask_token = None
        return found

    with pytest.raises(ConfigError, match=r"tokenizer has no mask token .*; set method\.pretraining = 0"):
        pd.compress(replace(job, stage=without_mask), pd.Options())
