"""Tables: CSV and Parquet say the same, columns are stable, and rows follow from the records."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.support.report import candidate, graded, instance, realistic
from uchide.report import ArmInputs, ReportInputs, build
from uchide.report.tables import COLUMNS


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    inputs = realistic(folder / "trajectories", n=4, k=3)
    return inputs, build(inputs, folder / "out"), folder / "out" / "tables"


def read_csv(path, schema):
    convert = pyarrow.csv.ConvertOptions(
        column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    return pyarrow.csv.read_csv(
        path, convert_options=convert, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)
    )


@pytest.mark.parametrize("name", COLUMNS)
def test_csv_and_parquet_are_equal(built, name):
    parquet = pyarrow.parquet.read_table(built[2] / f"{name}.parquet")
    assert parquet.column_names == list(COLUMNS[name])
    assert parquet.num_rows > 0
    assert read_csv(built[2] / f"{name}.csv", parquet.schema) == parquet


def test_tables_agree_with_the_summary(built):
    inputs, summary, folder = built
    tables = {name: pyarrow.parquet.read_table(folder / f"{name}.parquet").to_pylist() for name in COLUMNS}
    assert len(tables["candidates"]) == len(tables["verdicts"]) == 12
    assert [row["resolved"] for row in tables["per_run"]] == [row.resolved for row in summary.per_run]
    assert sum(row["resolved_runs"] > 0 for row in tables["instances"]) == summary.oracle
    for selector, count in summary.selected.items():
        assert sum(row["resolved"] for row in tables["picks"] if row["selector"] == selector) == count
    outcomes = sum(
        len(tests) for m in inputs.arms[0].matrices for suites in m.outcomes.values() for tests in suites.values()
    )
    assert len(tables["matrix"]) == outcomes
    assert {row["kind"] for row in tables["matrix"]} == {"fail_to_pass", "pass_to_pass"}


def test_hostile_text_survives_both_formats(tmp_path):
    message = '=1+1,"quoted"\r\n\x1b[31mred\x00 \ud800 \u202eevil\u2028end'
    made = candidate("r01_s1001", "a", "diff", warnings=("dropped b.bin, binary", "x"))
    row = graded(made, "no_results", message=message)
    arm = ArmInputs(name="main", runs=("r01_s1001",), candidates=[made], graded=[row])
    build(ReportInputs(experiment="x", arms=(arm,), instances=[instance("a")]), tmp_path)
    parquet = pyarrow.parquet.read_table(tmp_path / "tables/verdicts.parquet")
    assert read_csv(tmp_path / "tables/verdicts.csv", parquet.schema) == parquet
    assert parquet["message"].to_pylist() == ['=1+1,"quoted" ␛[31mred␀ <U+D800> <U+202E>evil<U+2028>end']
    assert parquet["resolved"].to_pylist() == [False]


def test_a_table_without_rows_still_has_its_columns(tmp_path):
    made = candidate("r01_s1001", "a", "")
    arm = ArmInputs(name="main", runs=("r01_s1001",), candidates=[made], graded=[graded(made, "empty_patch")])
    build(ReportInputs(experiment="x", arms=(arm,), instances=[instance("a")]), tmp_path)
    picks = pyarrow.parquet.read_table(tmp_path / "tables/picks.parquet")
    assert (picks.num_rows, picks.column_names) == (0, list(COLUMNS["picks"]))
    assert (tmp_path / "tables/picks.csv").read_text().count("\n") == 1
    assert picks.schema.field("tied").type == pa.int64()
