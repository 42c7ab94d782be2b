import json


def test_the_demo_ends_with_the_path_of_a_page_on_the_whole_job(command, tiny_model_folder, table_file, tmp_path):
    folder = tmp_path / "demo"
    result = command(
        "demo",
        f"run.folder={folder}",
        f"predecessor.path={tiny_model_folder}",
        "predecessor.training={epochs=6, learning_rate=3e-3, batch_size=8}",
        "task.name=table",
        f"task.train={table_file}",
        "task.text=sentence",
        "task.label=label",
        "plan.successors=2",
        "training.max_steps=2",
        "training.max_length=16",
        "evaluation.latency_predictions=1",
    )
    assert result.code == 0, result.err
    last = result.out.splitlines()[-1]
    assert last == str(folder / "report.html")
    page = (folder / "report.html").read_text("utf-8")
    assert "times smaller" in page
    assert set(json.loads((folder / "record.json").read_text())["analysis"]) == {"errors", "inside", "cost"}
    assert (folder / "successor" / "README.md").read_text("utf-8").startswith("---\n")
