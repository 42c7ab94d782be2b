"""What is given in memory: examples and models, written into the run's folder so that its config is complete.

A file's name has a hash of what is in it: the same data and the same weights give the same config, so a run that was stopped goes
on; others give another config, and are not mistaken for it.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from plankwise.errors import ConfigError, DataError
from plankwise.files import whole_file, whole_folder
from plankwise.run.folders import GIVEN

Data: TypeAlias = (
    Any  # a path, a pandas.DataFrame, a datasets.Dataset, a pyarrow.Table, or a list of dicts or of tuples
)
ROWS = 10_000  # written at once
FILES = ("train", "dev", "test")


def is_data(value: object) -> bool:
    """Whether a value holds examples, rather than naming a file of them."""
    return (
        _is(value, "pandas", "DataFrame")
        or _is(value, "datasets", "Dataset")
        or _is(value, "pyarrow", "Table")
        or (isinstance(value, Sequence) and not isinstance(value, str))
    )


def write_examples(task: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A [task] section whose examples in memory have become files in the run's folder.

    Columns that are not named are `text` (and `text_pair`) and `label`. Classes of a datasets.Dataset keep their names and order.

    Raises:
        ConfigError, DataError: the examples cannot be used; says why.
    """
    given = {key: task[key] for key in FILES if key in task and not isinstance(task[key], str | Path | None)}
    section = {key: str(value) if isinstance(value, Path) else value for key, value in task.items()}
    if not given:
        return section
    if section.setdefault("name", "table") != "table":
        raise ConfigError(
            f"task.name is {section['name']!r}, but examples are given; those are for task.name = 'table'"
        )
    for key, value in given.items():
        if not is_data(value):
            raise ConfigError(
                f"task.{key} is a {type(value).__name__}; give a file, a pandas.DataFrame, a datasets.Dataset, a list of dicts, "
                "or a list of (text, label) pairs"
            )
    found = {key: _names(value, key) for key, value in given.items()}
    if "text" not in section:
        known = next(iter(found.values()))
        section["text"] = ["text", "text_pair"] if "text_pair" in known else "text"
    section.setdefault("label", "label")
    texts = section["text"]
    columns = [texts] if isinstance(texts, str) else list(texts)
    for key, value in given.items():
        wanted = columns if key == "test" else [*columns, section["label"]]
        if missing := [name for name in wanted if name not in found[key]]:
            raise DataError(
                f"task.{key} has no column {missing[0]!r}; it has {', '.join(found[key]) or 'none'}: name the columns "
                "with task.text and task.label"
            )
        names = _class_names(value, section["label"]) if key != "test" else None
        if key == "train" and names and "labels" not in section and section.get("kind", "classes") == "classes":
            section["labels"] = names
        section[key] = str(_write(_batches(value, wanted, names, section["label"]), folder, key))
    return section


def write_model(model: Any, tokenizer: Any, folder: Path) -> str:
    """Writes a model in memory and its tokenizer into the run's folder; gives its path.

    Raises:
        ConfigError: not a Hugging Face model, or the tokenizer is missing.
    """
    from plankwise.models.quiet import quiet

    if not hasattr(model, "save_pretrained"):
        raise ConfigError(
            f"model is a {type(model).__name__}; give a folder, a hub name or a Hugging Face model; a torch model of your own is "
            "compressed by plankwise.hybrid in your own training script"
        )
    if tokenizer is None:
        raise ConfigError("model is a model in memory, which has no tokenizer with it; give tokenizer= too")
    place = folder / GIVEN / "model"
    with quiet(), whole_folder(place) as part:
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        told = hashlib.sha256()
        for path in sorted(part.rglob("*")):
            if path.is_file():
                told.update(path.name.encode())
                with path.open("rb") as file:
                    for block in iter(lambda: file.read(1 << 20), b""):
                        told.update(block)
    named = place.with_name(f"model-{told.hexdigest()[:12]}")
    if named.exists():
        shutil.rmtree(place)
    else:
        place.rename(named)
    return str(named)


def _is(value: object, package: str, name: str) -> bool:
    """Whether it is of a class of that name in a package, which is not imported for it."""
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == package for kind in type(value).__mro__)


def _names(value: Data, key: str) -> list[str]:
    """The columns of examples in memory."""
    if _is(value, "pandas", "DataFrame"):
        return [str(name) for name in value.columns]
    if _is(value, "pyarrow", "Table") or _is(value, "datasets", "Dataset"):
        return list(value.column_names)
    if not value:
        raise DataError(f"task.{key} is an empty list; give at least one example")
    first = value[0]
    if isinstance(first, Mapping):
        return list(first)
    if isinstance(first, tuple | list) and len(first) in (2, 3):
        return ["text", "label"] if len(first) == 2 else ["text", "text_pair", "label"]
    if isinstance(first, str) and key == "test":
        return ["text"]
    raise DataError(f"task.{key}[0] is {first!r:.60}; give dicts with column names, or tuples of text and label")


def _class_names(value: Data, label: str) -> list[str] | None:
    """The names behind the numbers of a datasets.Dataset's classes."""
    feature = value.features.get(label) if _is(value, "datasets", "Dataset") else None
    names = getattr(feature, "names", None)
    return None if names is None else list(names)


def _batches(value: Data, columns: list[str], classes: list[str] | None, label: str) -> Iterator[Any]:
    """The columns as Arrow tables of a few thousand rows each."""
    import pyarrow as pa

    if _is(value, "datasets", "Dataset"):
        tables: Iterable[pa.Table] = value.select_columns(columns).with_format("arrow").iter(ROWS)
    else:
        if _is(value, "pandas", "DataFrame"):
            whole = pa.Table.from_pandas(value[columns], preserve_index=False)
        elif _is(value, "pyarrow", "Table"):
            whole = value.select(columns)
        else:
            whole = pa.table({name: _column(value, name, columns) for name in columns})
        tables = (whole.slice(start, ROWS) for start in range(0, max(whole.num_rows, 1), ROWS))
    for table in tables:
        if classes and label in table.column_names:
            numbers = table[label].to_pylist()
            texts = pa.array([None if one is None or one < 0 else classes[one] for one in numbers], pa.string())
            table = table.set_column(table.column_names.index(label), label, texts)
        # One type of text, so that the same examples give the same file whatever they were given in.
        fields = [(one.name, pa.string() if pa.types.is_large_string(one.type) else one.type) for one in table.schema]
        yield table.cast(pa.schema(fields))


def _column(rows: Sequence[Any], name: str, columns: list[str]) -> list[Any]:
    if isinstance(rows[0], str):
        return list(rows)
    place = _names(rows, "train").index(name)
    try:
        return [row[name] if isinstance(row, Mapping) else row[place] for row in rows]
    except (KeyError, IndexError, TypeError):
        raise DataError(f"not every row has {', '.join(columns)}, as the first one does; fill them in") from None


def _write(tables: Iterator[Any], folder: Path, name: str) -> Path:
    """Writes tables to one file with a hash of their contents in its name; gives its path."""
    import pyarrow as pa
    from pyarrow import parquet

    told = hashlib.sha256()
    writer = None
    place = folder / GIVEN / f"{name}.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with whole_file(place) as part:
            for table in tables:
                writer = writer or parquet.ParquetWriter(part, table.schema)
                writer.write_table(table.cast(writer.schema))
                for column in table.columns:
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_stream(sink, pa.schema([("", column.type)])) as stream:
                        stream.write_table(pa.table([column.combine_chunks()], names=[""]))
                    told.update(sink.getvalue())
            assert writer is not None
            writer.close()
    except pa.ArrowInvalid as error:
        raise DataError(f"task.{name} cannot be read as a table ({error}); give one type of value a column") from None
    named = place.with_name(f"{name}-{told.hexdigest()[:12]}.parquet")
    place.replace(named)
    return named
