"""The notebook runs from top to bottom in a kernel of its own, and is stored without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "own_data.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def outputs_of(cell):
    """What a cell shows, by type of content."""
    return {kind: text for output in cell.outputs for kind, text in output.get("data", {}).items()}


def test_the_notebook_is_stored_without_outputs(notebook):
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_every_cell_runs_and_shows_what_it_found(notebook, tmp_path):
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = {cell.id: outputs_of(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert "<strong>The successor " in shown["compress"]["text/html"]
    assert "score is accuracy on dev" in shown["compress"]["text/plain"]
    assert "<td" in shown["evaluate"]["text/html"]
    assert shown["use"]["text/plain"].count("'label'") == 2
    assert (tmp_path / "runs" / "own-data" / "report.html").is_file()
