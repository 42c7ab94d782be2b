import pytest

from plankwise.errors import RunError
from plankwise.record import describe_machine, read_record, write_record


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = {"successor": {"score": 0.5, "path": "läufe/[x]"}, "speedup": None}
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record


def test_an_unfinished_run_has_no_record_to_read(tmp_path):
    with pytest.raises(RunError, match=r"has no record.json: it is no finished run; run `plankwise compress`"):
        read_record(tmp_path)


def test_a_damaged_record_is_named_with_a_remedy(tmp_path):
    (tmp_path / "record.json").write_text('{"score": ')
    with pytest.raises(RunError, match=r"record.json cannot be read .*; delete it and run the same command again"):
        read_record(tmp_path)


def test_the_machine_is_described_with_the_versions_that_matter():
    machine = describe_machine()
    assert machine["cores"] >= 1
    assert all(machine["versions"][name] for name in ("plankwise", "torch", "transformers"))
