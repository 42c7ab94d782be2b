"""Bad recipes, plans and folders: one sentence, exit code 2, nothing written."""

import pytest


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("plan.sucessors=3", "plan.sucessors: there is no such key. Did you mean 'successors'?"),
        ("trainig.epochs=3", "trainig: there is no such key. Did you mean 'training'?"),
        ("method.schedule.strat=0.1", "method.schedule.strat: there is no such key for the linear schedule. Did you"),
        ("predecessor.training.epoch=3", "predecessor.training.epoch: there is no such key. Did you mean 'epochs'?"),
        ("task.trian=x.csv", "task.trian: there is no such key. Did you mean 'train'?"),
        ("method.name=replacin", "method.name is 'replacin'; there is no such method. Did you mean 'replacing'?"),
        ("task.name=tabel", "task.name is 'tabel'; there is no such task. Did you mean 'table'?"),
        ("plan.part=layer", "plan.part is 'layer'; there is no such part. Did you mean 'layers'?"),
        ("method.schedule.kind=linaer", "method.schedule.kind is 'linaer'; there is no such schedule. Did you mean"),
        ("plan.init=lowr", "plan.init is 'lowr'; there is no such initialisation. Did you mean 'lower'?"),
        ("successors", "override 'successors' is not of the form key=value"),
        ("plan.successors=3", "4 blocks (bert.encoder.layer) do not divide into 3 equal spans; choose 1, 2 or 4"),
        ("method.schedule.start=1.5", "method.schedule.start is 1.5; choose a number from 0 to 1"),
        ("method.schedule={kind='constant', rate=-0.1}", "method.schedule.rate is -0.1; choose a number from 0 to 1"),
        ("training.max_length=65", "training.max_length is 65, but {model} takes at most 64 tokens; choose 4 to 64"),
        ("predecessor.finetune=false", "predecessor.finetune is false, but {model} has no trained head for this task"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused(refusal, tiny_model_folder, override, sentence):
    assert sentence.format(model=tiny_model_folder) in refusal(override)


@pytest.mark.parametrize(
    ("spans", "sentence"),
    [
        ("[[0, 1], [2, 3, 4]]", "span [2, 3, 4] lies outside bert.encoder.layer, whose blocks are 0 to 3"),
        ("[[0, 1], [1, 2]]", "overlap at bert.encoder.layer.1; a module can be in one slot only"),
        ("[[0, 2]]", "span [0, 2] of bert.encoder.layer is not consecutive"),
        ("[]", "plan.spans is empty; list at least one span"),
    ],
)
def test_spans_that_do_not_fit_the_model_are_refused(refusal, recipe, spans, sentence):
    recipe.write_text(recipe.read_text("utf-8").replace("successors = 2", f"spans = {spans}"), "utf-8")
    assert sentence in refusal()


def test_all_that_is_wrong_with_a_recipe_is_said_at_once(command, recipe, tmp_path):
    result = command("compress", recipe, "plan.sucessors=3", "training.epochs=0", "method.name=kdd")
    assert (result.code, len(result.err.splitlines())) == (2, 3)
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_is_missing_or_no_toml_is_refused(refusal, tmp_path):
    assert "none.toml does not exist; give a TOML file" in refusal(recipe=tmp_path / "none.toml")
    assert "is a folder; give a TOML file" in refusal(recipe=tmp_path)
    (tmp_path / "bad.toml").write_text("successors: 3")
    assert "bad.toml is not TOML: Expected '='" in refusal(recipe=tmp_path / "bad.toml")


def test_a_folder_in_use_is_refused_and_left_as_it_was(command, recipe, tmp_path):
    folder = tmp_path / "run"
    folder.write_text("a file")
    assert "which is a file; choose another run.folder" in command("compress", recipe).err
    folder.unlink()
    folder.mkdir()
    (folder / "thesis.doc").write_text("mine")
    assert "holds files that are not a run of plankwise; choose another run.folder" in command("compress", recipe).err
    assert [path.name for path in folder.iterdir()] == ["thesis.doc"]


def test_another_run_in_the_folder_is_refused_with_the_key_that_differs(command, recipe, tmp_path):
    from plankwise.config import load_config
    from plankwise.run.folders import claim

    claim(tmp_path / "run", load_config(recipe, []))
    result = command("compress", recipe, "plan.successors=1")
    assert result.code == 2
    assert "run holds another run (plan.successors is 2 there, 1 here); choose another run.folder" in result.err


def test_a_place_that_cannot_hold_a_folder_is_refused(refusal, table_file):
    sentence = refusal(f"run.folder={table_file}/run")
    assert sentence.startswith(f"{table_file}/run cannot be written")
