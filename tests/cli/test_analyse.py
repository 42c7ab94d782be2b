import json

import pytest

from plankwise.report.speed import read_speedups


@pytest.fixture
def run(tiny, recipe, tmp_path):
    """The folder of a finished run of two models that were never trained."""
    from plankwise.config import load_config

    folder, names = tmp_path / "run", ("negative", "positive")
    tiny.save_bert(folder / "predecessor", names=names, initializer_range=1.0)
    tiny.save_bert(folder / "successor", names=names, seed=3, num_hidden_layers=2, initializer_range=1.0)
    config = load_config(recipe, ["task.dev_share=0.5", "analysis.rules=[{kind = 'regex', pattern = 'the'}]"])
    (folder / "config.toml").write_text(config.to_toml())
    record = {name: {"path": str(folder / name)} for name in ("predecessor", "successor")}
    (folder / "record.json").write_text(json.dumps(record))
    return folder


def test_errors_are_shown_and_where_the_record_lies(command, run, tmp_path):
    result = command("analyse", run, "--only", "errors", "--sample", tmp_path / "errors.csv", "--count", 4)
    assert result.code == 0, result.err
    errors = json.loads((run / "record.json").read_text())["analysis"]["errors"]
    cells = errors["cells"]
    lines = [line.split() for line in result.out.splitlines()]
    assert ["predecessor", "right", str(cells["both_right"]), str(cells["lost"])] in lines
    assert ["predecessor", "wrong", str(cells["gained"]), str(cells["both_wrong"])] in lines
    assert f"Cohen's kappa {errors['kappa']:.3f}; {errors['flips_total']} answers differ" in result.out
    row = errors["classes"]["rows"][0]
    assert ["regex", f"{row['before']['share']:.1%}", f"{row['after']['share']:.1%}"] in [line[:3] for line in lines]
    assert "not shown" in result.out
    assert "4 errors to label by hand" in result.out
    assert f"record: {run}/record.json" in result.out
    assert max(len(line) for line in result.out.splitlines() if str(tmp_path) not in line) <= 80

    sheet = (tmp_path / "errors.csv").read_text().replace(",\n", ",doubtful label\n")
    (tmp_path / "errors.csv").write_text(sheet)
    result = command("analyse", run, "--only", "errors", "--labels", tmp_path / "errors.csv")
    assert result.code == 0, result.err
    assert "error classes by hand: 4 errors labelled, 0 left empty" in result.out
    assert "doubtful label" in result.out


def test_a_task_without_labels_of_whole_texts_shows_its_own_figures(command, run, tiny, tmp_path):
    from plankwise.config import validate_config

    tags = {"films": ("film", "plot"), "people": ("actor",)}
    lines = [
        "".join(
            f"{word}\t{next((f'B-{kind}' for kind, words in tags.items() if word in words), 'O')}\n"
            for word in text.split()
        )
        for text, _ in tiny.make_rows(48)
    ]
    (tmp_path / "names.conll").write_text("\n".join(lines), "utf-8")
    task = {"name": "tokens", "train": str(tmp_path / "names.conll"), "dev_share": 0.5}
    (run / "config.toml").write_text(validate_config({"task": task, "training": {"max_length": 16}}).to_toml())
    result = command("analyse", run, "--only", "errors")
    assert result.code == 0, result.err
    errors = json.loads((run / "record.json").read_text())["analysis"]["errors"]
    shown = [line.split() for line in result.out.splitlines()]
    for row in errors["tables"][0]["rows"]:
        pairs = zip(row["before"], row["after"], strict=True)
        figures = [part for a, b in pairs for part in ([str(a)] if a == b else [str(a), "→", str(b)])]
        assert [row["name"], str(row["of"]), *figures] in shown
    assert ["predecessor", "right", str(errors["cells"]["both_right"]), str(errors["cells"]["lost"])] in shown
    assert max(len(line) for line in result.out.splitlines() if str(tmp_path) not in line) <= 80


def test_the_cost_is_measured_as_asked_and_shown_by_batch_size(command, run):
    result = command("analyse", run, "--only", "cost", "--batch-sizes", "1, 8", "--predictions", 3, "--threads", 1)
    assert result.code == 0, result.err
    record = json.loads((run / "record.json").read_text())
    cost = record["analysis"]["cost"]
    assert cost["threads"] == 1
    latency = cost["latency"]
    assert {size: figures["predictions"] % 3 for size, figures in latency["successor"].items()} == {"1": 0, "8": 0}
    lines = [line.split() for line in result.out.splitlines()]
    for size in ("1", "8"):
        before, after = (f"{latency[name][size]['mean_ms']:.2f}" for name in ("predecessor", "successor"))
        shown = read_speedups(record)["successor"][size].text
        assert f"{cost['speedup'][size]:.2f}×" in shown
        assert [size, before, "ms", after, "ms", *shown.split()] in lines


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--batch-sizes", "1;8"], "--batch-sizes is '1;8'; give whole numbers with commas between, like 1,8,32"),
        (["--only", "errors,insides"], "--only names 'insides'; there is no such section. Did you mean 'inside'?"),
        (["--labels", "none.csv"], "--labels is none.csv, which is not a file; give the file that --sample wrote"),
        (["--threads", "0"], "--threads is 0; give 1 or more"),
        (["--predictions", "0"], "--predictions is 0; give 1 or more"),
        (["--recipe", "none.toml"], "recipe none.toml does not exist; give a TOML file"),
    ],
)
def test_what_cannot_be_analysed_is_refused_and_the_record_left_alone(command, run, arguments, sentence):
    before = (run / "record.json").read_text()
    result = command("analyse", run, *arguments)
    assert result.code == 2
    assert sentence in result.err
    assert result.err.count("\n") == 1
    assert (run / "record.json").read_text() == before


def test_a_folder_that_is_no_run_is_refused(command, tmp_path):
    assert f"{tmp_path} has no record.json: it is not a finished run" in command("analyse", tmp_path).err
