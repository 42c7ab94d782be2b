"""What a kind of task allows of a frontier: refused before anything is trained, or left out with a sentence."""

from types import SimpleNamespace

import pytest

from plankwise.config import validate_config
from plankwise.errors import ConfigError
from plankwise.frontier.scope import find_scope
from plankwise.task_kinds import PlainTexts

ASKED = {
    "formats": ("onnx", "openvino"),
    "static": True,
    "static_from": None,
    "trimmed": True,
    "exits": False,
    "encoders": (),
}


def refuse(*names):
    def check(config):
        if config.method.name in names:
            raise ConfigError(f"method.name is {config.method.name!r}, which is not for clouds")

    return check


@pytest.fixture
def run():
    """A run on a kind of task that takes as little as a kind can."""
    task = SimpleNamespace(
        kind="clouds",
        plain_texts=lambda: None,
        check_config=refuse("exits", "kd"),
        imitation=None,
        needs_tokens="rain falls as it likes",
        needs_torch=None,
    )
    config = validate_config({"task": {"name": "table", "train": "a.csv", "text": "t", "label": "l"}})
    return SimpleNamespace(task=task, config=config, own_tokenizer=lambda path: "its own")


def test_what_is_not_for_the_kind_is_left_out_with_a_sentence_each(run):
    scope = find_scope(run, **ASKED)
    assert scope.formats == ("onnx", "openvino")
    assert [scope.tfidf, scope.static, scope.truncated, scope.trimmed] == [False] * 4
    assert [sentence.split(",")[0] for sentence in scope.left_out] == [
        "tfidf and static",
        "truncated-kd",
        "trimmed vocabularies",
    ]


def test_a_kind_that_takes_everything_leaves_nothing_out(run):
    vars(run.task).update(
        plain_texts=lambda: PlainTexts([], list, {}, classes=2), check_config=refuse(), needs_tokens=None
    )
    scope = find_scope(run, **{**ASKED, "exits": True, "encoders": ("x",)})
    assert scope.tfidf
    assert scope.static
    assert scope.truncated
    assert scope.trimmed
    assert scope.left_out == ()


def test_where_vectors_are_wanted_there_are_static_embeddings_and_no_tfidf(run):
    run.task.plain_texts = lambda: PlainTexts([], list, {})
    scope = find_scope(run, **ASKED)
    assert scope.static
    assert not scope.tfidf


def test_what_torch_alone_can_score_is_not_exported(run):
    run.task.needs_torch = "an exported cloud drifts off"
    scope = find_scope(run, **ASKED)
    assert scope.formats == ()
    assert scope.left_out[-1] == "onnx and openvino, since an exported cloud drifts off; points are in torch alone"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"exits": True}, "--exits is given, but method.name is 'exits', which is not for clouds; leave it out"),
        (
            {"encoders": ("x",)},
            "--encoder is 'x', which has other tokens than the predecessor, but the task is on clouds, where rain falls",
        ),
        ({"static_from": "x"}, "--embeddings is 'x', but a task on clouds has no row of static embeddings"),
    ],
)
def test_what_is_asked_for_on_purpose_and_cannot_be_is_refused(run, asked, said):
    with pytest.raises(ConfigError) as error:
        find_scope(run, **{**ASKED, **asked})
    assert said in str(error.value)


def test_an_encoder_is_refused_where_there_are_no_labels_to_train_it_on(run):
    run.task.imitation = object()
    with pytest.raises(ConfigError, match="has no labels to train an encoder on; leave it out"):
        find_scope(run, **{**ASKED, "encoders": ("x",)})
