"""Tables that cannot be used: one sentence with the line, exit code 2, nothing written."""

import json

import pytest


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "own.csv has no rows; give a file with at least one row"),
        (b"sentence,label\n", "own.csv has no rows"),
        (b"text,label\na,x\nb,y\n", "own.csv, column 'sentence': there is no such column. Known: label, text"),
        (b"sentence,label\na,x\nb,x\n", "every label in column 'label' is 'x'; at least two classes are needed"),
        (b"sentence,label\na,x\nb,\n", "own.csv line 3: the label is empty"),
        (
            "sentence,label\na,x\nschön,y\n".encode("latin-1"),
            "own.csv line 3: byte 0xf6 at offset 22 is not utf-8; set",
        ),
        (b'sentence,label\na,x\n"b,y\n', "own.csv line 3: a quoted field that begins here is never closed"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(refusal, tmp_path, content, sentence):
    (tmp_path / "own.csv").write_bytes(content)
    assert sentence in refusal(f"task.train={tmp_path}/own.csv")


def test_a_missing_table_is_refused_with_its_key(refusal, tmp_path):
    assert f"task.train is '{tmp_path}/none.csv'; there is no such file" in refusal(f"task.train={tmp_path}/none.csv")


def test_an_unknown_label_is_refused_with_its_line(refusal, tmp_path):
    (tmp_path / "dev.csv").write_text("sentence,label\nfine,positive\nso so,neutrl\n")
    given = ["task.labels=['negative', 'neutral', 'positive']", f"task.dev={tmp_path}/dev.csv"]
    assert refusal(*given) == "dev.csv line 3: label 'neutrl' is not in task.labels (negative, neutral, positive)"


def test_texts_that_are_too_long_are_cut_and_counted(command, recipe, tiny_expert_folder, tmp_path, table_file):
    with table_file.open("a") as file:
        file.write(f"{'film ' * 30}fine,positive\n{'plot ' * 30}dull,negative\n")
    (tmp_path / "dev.csv").write_text("sentence,label\nfine,positive\ndull,negative\n")
    keys = [f"predecessor.path={tiny_expert_folder}", f"task.dev={tmp_path}/dev.csv", "training.max_steps=1"]
    keys += [f"evaluation.{key}=false" for key in ("truncated", "latency", "estimate")]
    result = command("compress", recipe, *keys)
    assert result.code == 0, result.err
    assert "train: 50 examples, 2 longer than 16 tokens and cut\n" in result.out
    assert "dev: 2 examples\n" in result.out
    assert json.loads((tmp_path / "run" / "record.json").read_text())["task"]["cut"] == {"train": 2, "dev": 0}
