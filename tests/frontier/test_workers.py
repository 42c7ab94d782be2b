"""A frontier whose models workers share: the models, points and scores of one that one process draws."""

import json


def test_a_frontier_that_is_shared_has_the_models_and_scores_of_one_that_is_not(
    command, recipe, tiny_expert_folder, tmp_path
):
    keys = (f"predecessor.path={tiny_expert_folder}", "training.max_steps=1", "plan.solving.tokens=200")
    options = ("--depths", "1", "--formats", "", "--no-static", "--no-thin", "--exits", "--predictions", "2")

    def draw(folder, *more):
        result = command("frontier", recipe, *keys, *options, "--folder", folder, *more)
        assert result.code == 0, result.err
        rows = json.loads((folder / "table.json").read_text())["rows"]
        return [{key: row[key] for key in ("name", "kind", "score", "interval", "size_mb")} for row in rows], result.out

    together, told = draw(tmp_path / "together", "--workers", "here")
    assert together == draw(tmp_path / "alone")[0]
    assert [row["name"].removesuffix("-torch-fp32") for row in together][-1] == "4-layers-exits"
    assert "model 4 of 4: 4-layers-exits" in told
    again, told = draw(tmp_path / "together", "--workers", "here")
    assert again == together
    assert "model 4 of 4" not in told
