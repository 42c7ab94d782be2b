"""Sources of examples, one file each; the file's name is the task's name.

Each file offers `KIND`, the kind of task that it is a source for, and `Options`, whose `name` is the file's name. A source for
`labels` offers `read(options) -> Source` and `read_tests(options) -> dict[str, pa.Table]`. Where its tests are table files,
`test_files(options) -> list[tuple[Path, list[str], Layout]]` names them with their columns of text: predictions then keep all of
a file's columns.
"""
