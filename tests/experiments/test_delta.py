"""The Delta experiments: their plan, and a small one on the sample from the command to the page."""

import re

import pytest

from rerank_plugin import embed, experiment
from rerank_plugin.experiments.delta import DeltaPlan, DeltaSettings
from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.errors import InputError


def plan(tmp_path, **more):
    return DeltaPlan(DeltaSettings(tmp_path, "C", "T", "V", "E", "W", **more))


def test_every_row_of_the_paper_is_there(tmp_path):
    names = [row.name for row in plan(tmp_path, weak=("C",)).rows()]
    assert len(set(names)) == len(names)
    paper = "docid bm25-title qld-title wmd-title drmm sevmos-c1 sevmos-c3 delta32 delta32-lex3 delta32-no-differences"
    assert set(f"{paper} delta32-no-features delta-classifier sweep-8 sweep-256 order".split()) < set(names)


def test_options_of_rows_are_what_the_paper_says(tmp_path):
    rows = {row.name: " ".join(row.train) for row in plan(tmp_path).rows()}
    assert f"--lexical-features {' '.join(LEX3)}" in rows["delta32-lex3"] and "--lexical" not in rows["delta32"]
    assert "differences=false" in rows["delta32-no-differences"]
    assert "delta_features=false" in rows["delta32-no-features"]
    assert "convolutions=3" in rows["sevmos-c3"] and "convolutions" not in rows["sevmos-c1"]
    assert "--filters 64" in rows["sweep-64"]


def test_some_rows_only(tmp_path):
    assert [row.name for row in plan(tmp_path, only=("delta32",)).rows()] == ["order", "delta32"]
    with pytest.raises(InputError, match="unknown rows delta33.*delta32"):
        plan(tmp_path, only=("delta33",)).rows()


def test_training_options_are_accepted_by_the_command(tmp_path):
    """Every row's options are parsed, and its model is built from them."""
    from rerank_plugin import train
    from rerank_plugin.models.checkpoints import build_config, model_classes

    always = ["--index", "i", "--train", "t", "--validation", "v", "--words", "w", "--output", "o"]
    for row in plan(tmp_path).rows():
        if row.train:
            options = train.arguments().parse_args([*always, *row.train])
            train.training_config(options)
            build_config(model_classes(options.model)[1], train._model_values(options), row.name)


def test_from_the_command_to_the_page(tmp_path):
    """Two models, selection, pre-training, sweep and both settings on the sample, with very small trainings."""
    words = tmp_path / "words"
    embed.main(
        [
            "words",
            "--corpus",
            "sample",
            "--min-count",
            "5",
            "--dimension",
            "12",
            "--epochs",
            "1",
            "--output",
            str(words),
        ]
    )
    judged = tmp_path / "judged.qrels"
    from rerank_plugin.corpora import judgments

    sample = judgments("sample:test")
    everything = sorted({document for of_query in sample.values() for document in of_query})[:120]
    judged.write_text(
        "".join(f"{q} 0 {d} {of_query.get(d, 0)}\n" for q, of_query in sample.items() for d in {*everything, *of_query})
    )
    command = [
        "delta", "--corpus", "sample", "--train", "sample:train", "--validation", "sample:dev", "--test", "sample:test",
        "--judged", str(judged), "--weak", "sample", "--words", str(words), "--work", str(tmp_path / "work"),
        "--output", str(tmp_path / "page.md"), "--epochs", "1", "--pairs", "2", "--sweep-pairs", "2", "--selected", "1",
        "--selection-epochs", "1", "--selection-pairs", "1", "--weak-queries", "20", "--depth", "30", "--filters", "4",
        "--only", "docid", "bm25-title", "wmd-title", "delta32", "delta32-selected", "delta32-lex3-tuned", "sweep-4",
    ]  # fmt: skip
    experiment.main(command)
    page = (tmp_path / "page.md").read_text()
    assert (tmp_path / "page-filters.png").read_bytes().startswith(b"\x89PNG")
    for heading in ("Table 1", "Table 2: all queries", "Table 5: AllNewWords", "Table 6", "Figure 3", "Table 7"):
        assert heading in page
    assert "--selection-pairs 1" in page and "Chosen: " in page
    assert not re.search(r"\bnan\b", page)
    before = (tmp_path / "work" / "journal.json").stat().st_mtime_ns
    experiment.main(command)
    assert (tmp_path / "work" / "journal.json").stat().st_mtime_ns == before
    assert (tmp_path / "page.md").read_text() == page


@pytest.mark.parametrize("options", [["--epochs", "0"], ["--weak-queries", "1"], ["--notes", "no-such-file"]])
def test_wrong_options(tmp_path, options, capsys):
    always = [f"--{name}" for name in ("corpus", "train", "validation", "test", "words", "work", "output")]
    with pytest.raises(SystemExit) as raised:
        experiment.main(["delta", *(part for name in always for part in (name, "x")), *options])
    assert raised.value.code == 2 and options[0] in capsys.readouterr().err
