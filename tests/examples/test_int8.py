"""The script that quantises a run's models: one row a model and one a quantised model, with the scores of the record."""

import importlib.util
from pathlib import Path

import plankwise
from conftest import make_rows

SCRIPT = Path(__file__).parent.parent.parent / "examples" / "int8.py"


def load_script():
    spec = importlib.util.spec_from_file_location("int8_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_model_of_a_run_has_a_row_and_a_smaller_one_in_int8(tiny_expert_folder, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    found = plankwise.compress(
        tiny_expert_folder,
        task=make_rows(48),
        plan={"successors": 2},
        predecessor={"finetune": True, "training": {"max_steps": 1}},  # so that the run has a predecessor of its own
        training={"max_steps": 2, "batch_size": 8, "max_length": 16},
        evaluation={"latency": False, "estimate": False, "truncated": False},
        run={"folder": str(folder)},
        quiet=True,
    )
    script = load_script()
    monkeypatch.setattr(script, "PREDICTIONS", 1)
    script.main(folder)
    rows = [
        line.split("  ") for line in capsys.readouterr().out.splitlines() if line.strip().startswith(("pred", "succ"))
    ]
    figures = {cells[0].strip(): [cell.strip() for cell in cells[1:] if cell.strip()] for cells in rows}
    assert list(figures) == ["predecessor", "predecessor, int8", "successor", "successor, int8"]
    assert figures["successor"][0] == f"{found.record['successor']['score']:.4f}"
    assert float(figures["predecessor, int8"][1]) <= float(figures["predecessor"][1])
