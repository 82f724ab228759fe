"""The Delta experiments: their plan, and a small one on the sample from the command to the page."""

import re

from experiments.delta import DeltaPlan, DeltaSettings
from rerank_plugin.inputs.lexical_features import LEX3
from tests.experiments.conftest import built


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
    made = plan(tmp_path, weak=("Z",), stem_words="S", cbow_words="B")
    trainings = {row.name: made.training(row.name) for row in made.rows() if row.train}
    rows = {name: " ".join(step.command) for name, step in trainings.items()}
    assert f"--lexical-features {' '.join(LEX3)}" in rows["delta32-lex3"] and "--lexical" not in rows["delta32"]
    assert "differences=false" in rows["delta32-no-differences"]
    assert "delta_features=false" in rows["delta32-no-features"]
    assert "convolutions=3" in rows["sevmos-c3"] and "convolutions" not in rows["sevmos-c1"]
    assert "--set filters=64" in rows["sweep-64"]
    weak = made.training("delta32-lex3-weak").output
    assert f"--start-from {weak}" in rows["delta32-lex3-tuned"] and ":dev" in rows["delta32-lex3-weak"]
    assert "--measures accuracy nDCG@20 AP" in rows["delta-classifier-accuracy"]
    assert "query_stopwords=remove" in rows["drmm-d18"] and "query_stopwords" not in rows["drmm"]
    for step in trainings.values():
        built(step)


def test_rows_on_stems_read_an_index_and_vectors_of_stems(tmp_path):
    made = plan(tmp_path, stem_words="S", cbow_words="B")
    words = {"drmm-d18": "B", "delta32-lex3-stems": "S", "delta32-lex3-share-stems": "S", "delta32-lex3": "W"}
    indexes = {str(step.output): "krovetz" in step.command for step in next(iter(made.stages()))}
    assert sorted(indexes.values()) == [False, True]
    for row in made.rows():
        if row.name in words:
            training, run = made.training(row.name), made.run(row, "candidates")
            assert training.command[training.command.index("--words") + 1] == words[row.name]
            for step in (training, run):  # both read the same index
                assert indexes[step.command[step.command.index("--index") + 1]] == (words[row.name] != "W")
    assert not any(row.name in words for row in plan(tmp_path).rows() if row.name != "delta32-lex3")


def test_some_rows_only(tmp_path):
    assert [row.name for row in plan(tmp_path, only=("delta32",)).rows()] == ["order", "delta32"]


def test_from_the_command_to_the_page(page_of, judged, encoder):
    """Two models, selection, pre-training, sweep and both settings on the sample, with very small trainings."""
    page, figures = page_of(
        "delta --corpus sample --train sample:train --validation sample:dev --test sample:test --weak sample "
        f"--judged {judged} --pairs 2 --sweep-pairs 2 --selected 1 --selection-epochs 1 --selection-pairs 1 "
        "--weak-queries 20 --depth 30 --filters 4 "
        f"--encoder {encoder} "
        "--only docid bm25-title wmd-title sentences delta32 delta32-selected delta32-lex3-tuned sweep-4"
    )
    assert figures == ["page-filters.png"]
    for heading in ("Table 1", "Table 2: all queries", "Table 5: AllNewWords", "Table 6", "Figure 3", "Table 7"):
        assert heading in page
    assert re.search(r"\n\| some word of the query \| \d+ \| 0\.\d", page)
    assert len(re.findall(r"\n\| Sentence encoder, not trained \|", page)) >= 3
    assert "--selection-pairs 1" in page and "Chosen: " in page
