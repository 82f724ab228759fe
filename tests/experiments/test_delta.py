"""The Delta experiments: their plan, and a small one on the sample from the command to the page."""

import re

import pytest

import rerank_plugin as rp
from experiments.__main__ import main
from experiments.delta import DeltaPlan, DeltaSettings
from rerank_plugin.features.lexical_features import LEX3


def plan(tmp_path, **more):
    always = dict(
        work=tmp_path, output=tmp_path / "page.md", corpus="C", train="T", validation="V", test="E", words="W"
    )
    return DeltaPlan(DeltaSettings(**{**always, **more}), dry=True)


def test_every_row_of_the_paper_is_there(tmp_path):
    names = [row.name for row in plan(tmp_path, weak=("C",)).rows()]
    assert len(set(names)) == len(names)
    paper = "docid bm25-title qld-title wmd-title drmm sevmos-c1 sevmos-c3 delta32 delta32-lex3 delta32-no-differences"
    assert set(f"{paper} delta32-no-features delta-classifier sweep-8 sweep-256 order".split()) < set(names)


def test_options_of_rows_are_what_the_paper_says(tmp_path):
    """And the command accepts them: every row's options are parsed, and its model is built from them."""
    from rerank_plugin import train
    from rerank_plugin.models.checkpoints import build_config, model_classes

    made = plan(tmp_path, weak=("Z",))
    rows = {row.name: " ".join(made.training(row.name).command) for row in made.rows() if row.train}
    assert f"--lexical-features {' '.join(LEX3)}" in rows["delta32-lex3"] and "--lexical" not in rows["delta32"]
    assert "differences=false" in rows["delta32-no-differences"]
    assert "delta_features=false" in rows["delta32-no-features"]
    assert "convolutions=3" in rows["sevmos-c3"] and "convolutions" not in rows["sevmos-c1"]
    assert "--filters 64" in rows["sweep-64"]
    weak = made.training("delta32-lex3-weak").output
    assert f"--start-from {weak}" in rows["delta32-lex3-tuned"] and ":dev" in rows["delta32-lex3-weak"]
    for name, command in rows.items():
        options = train.arguments().parse_args(command.split()[1:])
        train.training_config(options)
        build_config(model_classes(options.model)[1], train._model_values(options), name)


def test_some_rows_only(tmp_path):
    assert [row.name for row in plan(tmp_path, only=("delta32",)).rows()] == ["order", "delta32"]
    with pytest.raises(rp.InputError, match="unknown rows delta33.*delta32"):
        plan(tmp_path, only=("delta33",))


def test_from_the_command_to_the_page(tmp_path, in_process, sample_words, judged):
    """Two models, selection, pre-training, sweep and both settings on the sample, with very small trainings."""
    command = (
        "delta --corpus sample --train sample:train --validation sample:dev --test sample:test --weak sample "
        f"--judged {judged} --words {sample_words} --work {tmp_path}/work --output {tmp_path}/page.md "
        "--epochs 1 --pairs 2 --sweep-pairs 2 --selected 1 --selection-epochs 1 --selection-pairs 1 --weak-queries 20 "
        "--depth 30 --at-once 1 --filters 4 "
        "--only docid bm25-title wmd-title delta32 delta32-selected delta32-lex3-tuned sweep-4"
    ).split()
    main(command)
    page = (tmp_path / "page.md").read_text()
    assert (tmp_path / "page-filters.png").read_bytes().startswith(b"\x89PNG")
    for heading in ("Table 1", "Table 2: all queries", "Table 5: AllNewWords", "Table 6", "Figure 3", "Table 7"):
        assert heading in page
    assert "--selection-pairs 1" in page and "Chosen: " in page
    assert not re.search(r"\bnan\b", page)
    before = (tmp_path / "work" / "journal.json").stat().st_mtime_ns
    main(command)
    assert (tmp_path / "work" / "journal.json").stat().st_mtime_ns == before
    assert (tmp_path / "page.md").read_text() == page


@pytest.mark.parametrize("options", [["--epochs", "0"], ["--weak-queries", "1"], ["--notes", "no-such-file"]])
def test_wrong_options(tmp_path, options, refused):
    always = [f"--{name}" for name in ("corpus", "train", "validation", "test", "words", "work", "output")]
    assert options[0] in refused(
        ["delta", *(part for name in always for part in (name, str(tmp_path / "x"))), *options]
    )
    assert not (tmp_path / "x").exists()
