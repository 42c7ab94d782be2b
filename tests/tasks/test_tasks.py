"""What every file of `tasks` offers, plug-ins included."""

import inspect
from typing import Literal, get_args, get_origin

import pytest

from plankwise import config
from plankwise.data.source import TaskOptions
from plankwise.kinds import list_kinds, load_kind

TASKS = {name: load_kind("tasks", name, key="task.name") for name in list_kinds("tasks")}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_says_what_kind_it_is_a_source_for(name):
    assert isinstance(TASKS[name].KIND, str)
    assert TASKS[name].KIND.isidentifier()


@pytest.mark.parametrize("name", TASKS)
def test_the_options_have_the_tasks_name_and_each_says_what_it_is_for(name):
    options = TASKS[name].Options
    assert issubclass(options, config.Options)
    field = options.model_fields["name"]
    assert get_origin(field.annotation) is Literal
    assert get_args(field.annotation) == (field.default,) == (name,)
    assert all(field.description for field in options.model_fields.values())


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.KIND == "labels"])
def test_a_source_of_labels_reads_examples_and_tests(name):
    assert issubclass(TASKS[name].Options, TaskOptions)
    for function in (TASKS[name].read, TASKS[name].read_tests):
        assert list(inspect.signature(function).parameters) == ["options"]
