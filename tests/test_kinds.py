from types import ModuleType, SimpleNamespace

import pytest

from plankwise import kinds
from plankwise.errors import ConfigError


def test_a_folder_offers_its_files_but_not_its_helpers():
    assert {"glue", "reviews", "table"} <= set(kinds.list_kinds("tasks"))
    assert not [name for name in kinds.list_kinds("tasks") if name.startswith("_")]


def test_a_kind_is_the_module_of_its_name():
    assert kinds.load_kind("tasks", "table", key="task.name").__name__ == "plankwise.tasks.table"


@pytest.mark.parametrize("name", ["_tables", "os", "", 3, None])
def test_what_is_no_kind_is_refused_with_all_that_are(name):
    with pytest.raises(ConfigError, match=r"task.name is .*; there is no such task\..* Known: .*glue.*table"):
        kinds.load_kind("tasks", name, key="task.name")


def test_the_nearest_name_is_offered_only_if_one_is_near():
    assert kinds.no_such("tabel", ["glue", "table"], "task") == (
        "there is no such task. Did you mean 'table'? Known: glue, table"
    )
    assert kinds.no_such("xyz", ["glue", "table"], "task") == "there is no such task. Known: glue, table"


def test_a_plug_in_adds_a_kind(monkeypatch):
    plug_in = ModuleType("their_task", "Their task.\n\nMore.")
    entry = SimpleNamespace(name="theirs", module="their_task", load=lambda: plug_in)
    monkeypatch.setattr(kinds, "entry_points", lambda group: [entry] if group == "plankwise.tasks" else [])
    assert "theirs" in kinds.list_kinds("tasks")
    assert kinds.load_kind("tasks", "theirs", key="task.name") is plug_in
    assert kinds.summary("tasks", "theirs") == "Their task."


def test_what_a_kind_is_can_be_read_without_loading_it(monkeypatch, tmp_path):
    (tmp_path / "slow_task.py").write_text('"""A task that takes long.\n\nMore."""\nraise AssertionError("loaded")\n')
    monkeypatch.syspath_prepend(tmp_path)
    entry = SimpleNamespace(name="slow", module="slow_task")
    monkeypatch.setattr(kinds, "entry_points", lambda group: [entry] if group == "plankwise.tasks" else [])
    assert kinds.summary("tasks", "slow") == "A task that takes long."
    assert kinds.summary("tasks", "table") == "Your own examples, from csv, tsv, jsonl or parquet files."
