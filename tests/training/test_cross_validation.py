"""Folds: parts of the queries, and files of them; and the models, the run and the table of a cross-validation."""

import logging
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin import index, search, train
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import judgments
from rerank_plugin.evaluation.values import Evaluator
from rerank_plugin.files.runs import read_run
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.training import cross_validation, session
from rerank_plugin.training.cross_validation import (
    FOLDS_FILE,
    RUN_FILE,
    SHARE,
    TABLE_FILE,
    as_text,
    make_folds,
    random_parts,
    read_parts,
)
from rerank_plugin.training.validation import HeldOut, Validation
from tests import small
from tests.evaluation.runs import mean_measures
from tests.training import learnable
from tests.training.commanded import cross_validate, run, validation_killed, weights_of


def queries(count):
    return [Query(f"q{number}", f"word{number}") for number in range(count)]


@given(size=st.integers(2, 40), data=st.data(), seed=st.integers(0, 3))
def test_random_parts(size, data, seed):
    """Every query is in one part, in the order of the queries, and sizes differ by one at most."""
    count = data.draw(st.integers(2, size))
    every = queries(size)
    parts = random_parts(every, count, seed)
    assert len(parts) == count and list(parts) == sorted(parts)
    assert sorted(query for part in parts.values() for query in part) == sorted(every)
    assert all(part == sorted(part, key=every.index) for part in parts.values())
    sizes = [len(part) for part in parts.values()]
    assert max(sizes) - min(sizes) <= 1 and min(sizes) >= 1
    assert random_parts(every, count, seed) == parts


def test_the_seed_shuffles():
    first, second = (random_parts(queries(30), 3, seed) for seed in (1, 2))
    assert first.keys() == second.keys() == {"1", "2", "3"} and first != second
    assert first["1"] != queries(30)[:10]


@pytest.mark.parametrize("count", [0, 1, 6])
def test_too_few_and_too_many_parts(count):
    with pytest.raises(InputError, match=f"{count} folds: the 5 judged queries make 2 to 5"):
        random_parts(queries(5), count, 1)


def test_the_papers_folds():
    """[P] 3.1: six years of 50 queries; of the 250 others 50 random ones validate and 200 train."""
    parts = {str(2009 + year): queries(300)[50 * year : 50 * year + 50] for year in range(6)}
    for held_out in (50, SHARE):
        made = make_folds(parts, held_out, 3)
        assert [fold.name for fold in made] == list(parts)
        for fold in made:
            assert fold.test == parts[fold.name]
            assert (len(fold.validation), len(fold.train)) == (50, 200)
            assert sorted(fold.train + fold.validation + fold.test) == sorted(queries(300))
    assert make_folds(parts, 50, 3) == made
    assert make_folds(parts, 50, 4) != made
    assert len({query for fold in made for query in fold.validation}) > 150  # a sample of its own for each fold


def test_the_order_of_the_parts_does_not_matter():
    parts = random_parts(queries(20), 4, 1)
    backwards = dict(reversed(list(parts.items())))
    assert make_folds(parts, 3, 1) == make_folds(backwards, 3, 1)[::-1]


@pytest.mark.parametrize("held_out", [4, 9, 0.9])
def test_validation_must_leave_training_queries(held_out):
    parts = {"a": queries(6)[:2], "b": queries(6)[2:]}
    with pytest.raises(InputError, match=f"hold out {held_out} for validation: the [24] queries outside the fold"):
        make_folds(parts, held_out, 1)


def test_a_small_share_is_one_query():
    assert [len(fold.validation) for fold in make_folds(random_parts(queries(6), 3, 1), 0.01, 1)] == [1, 1, 1]


fold_names = st.lists(st.sampled_from(["2009", "wt10", "x-1.a", "é"]), min_size=2, max_size=20)


@given(fold_names.filter(lambda names: len(set(names)) > 1))
def test_written_folds_are_read(tmp_path_factory, names):
    every = queries(len(names))
    parts = {name: [query for query, fold in zip(every, names) if fold == name] for name in dict.fromkeys(names)}
    path = tmp_path_factory.mktemp("folds") / "folds.tsv"
    path.write_text(as_text(parts))
    assert list(read_parts(path, every).items()) == list(parts.items())
    path.write_text(as_text(parts).replace("\n", "\r\n") + "\n")
    assert read_parts(path, every) == parts


def test_unknown_queries_of_a_file(tmp_path, caplog):
    path = tmp_path / "folds.tsv"
    path.write_text("q1\tb\nq7\tc\nq0\ta\nq2\ta\n")
    with caplog.at_level(logging.WARNING):
        parts = read_parts(path, queries(3))
    assert {name: [query.id for query in part] for name, part in parts.items()} == {"b": ["q1"], "a": ["q0", "q2"]}
    assert "1 queries are not among the training queries, e.g. 'q7'" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q0\ta\nq1 b\n", ":2: expected a query id, a tab"),
        ("q0\ta\tb\n", ":1: expected a query id"),
        ("\ta\n", ":1: expected a query id"),
        ("q0\ta\nq0\ta\n", ":2: query q0 is in a fold already, a"),
        ("q0\ta/b\n", ":1: the fold 'a/b' names a folder"),
        ("q0\t..\n", ":1: the fold '..' names a folder"),
        ("q0\t\n", ":1: the fold '' names a folder"),
        ("q0\ta\nq1\tb\n", "1 judged queries are in no fold, e.g. 'q2'"),
        ("q0\ta\nq1\ta\nq2\ta\n", "all queries are in one fold, a"),
        ("", "3 judged queries are in no fold"),
    ],
)
def test_bad_files(tmp_path, text, message):
    (tmp_path / "folds.tsv").write_text(text)
    with pytest.raises(InputError) as raised:
        read_parts(tmp_path / "folds.tsv", queries(3))
    assert message in str(raised.value) and "folds.tsv" in str(raised.value)


def test_repeated_texts(caplog):
    """The same words after tokenization; within a fold they do no harm."""
    texts = {
        "a": {"q1": "Heart attack", "q2": "stroke", "q3": "gout"},
        "b": {"q4": "heart  ATTACK?", "q5": "migraine", "q6": "migraine", "q7": "attack heart"},
        "c": {"q8": "gout"},
    }
    parts = {name: [Query(id, text) for id, text in of_fold.items()] for name, of_fold in texts.items()}
    with caplog.at_level(logging.WARNING):
        cross_validation.warn_of_repeated_texts(parts)
    message = r"4 queries have the same words .* data: q1 \(fold a\) = q4 \(fold b\); q3 \(fold a\) = q8 \(fold c\)\n"
    assert re.search(message, caplog.text)
    caplog.clear()
    cross_validation.warn_of_repeated_texts(random_parts(queries(9), 3, 1))
    assert not caplog.text


HOW = "--lexical-features lex3"
IDS = [f"q-{topic}" for topic in learnable.TOPICS]


def everything(folder):
    """Contents by name, without the logs, which hold times."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("log.")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def lines_of(path, ids):
    """The lines of some queries, without the tag."""
    return [line.rsplit(" ", 1)[0] for line in path.read_text().splitlines() if line.split()[0] in ids]


def folds_of(folder):
    folds = {}
    for line in (folder / FOLDS_FILE).read_text().splitlines():
        query, name = line.split("\t")
        folds.setdefault(name, []).append(query)
    return folds


@pytest.fixture(scope="module")
def made(inputs, tmp_path_factory):
    """The output of three folds of the 12 queries: 2 of the other 8 validate, 6 train."""
    made = tmp_path_factory.mktemp("folds") / "made"
    cross_validate(inputs, made, HOW)
    assert [path.name for path in made.parent.iterdir()] == ["made"]
    return made


def test_files(made):
    assert {path.name for path in made.iterdir()} == {"fold-1", "fold-2", "fold-3", FOLDS_FILE, RUN_FILE, TABLE_FILE}
    folds = folds_of(made)
    assert [len(ids) for ids in folds.values()] == [4, 4, 4] and sorted(sum(folds.values(), [])) == sorted(IDS)
    for name, ids in folds.items():
        Checkpoint.open(made / f"fold-{name}").module()
        validated = Checkpoint.open(made / f"fold-{name}").description["training"]["validation_queries"]
        assert len(validated) == 2 and not set(validated) & set(ids)
    inodes = {(made / f"fold-{name}" / "embeddings.safetensors").stat().st_ino for name in folds}
    assert len(inodes) == 1  # they take space once


def test_a_fold_is_trained_on_nothing_else(inputs, made, tmp_path):
    """Its model is that of a training whose files name the other folds' queries only, bit for bit."""
    validated = Checkpoint.open(made / "fold-2").description["training"]["validation_queries"]
    parts = {"dev": validated, "train": [id for id in IDS if id not in {*folds_of(made)["2"], *validated}]}
    for name, ids in parts.items():
        for kind in ("tsv", "qrels", "run"):
            lines = (inputs / f"all.{kind}").read_text().splitlines(keepends=True)
            (tmp_path / f"{name}.{kind}").write_text("".join(line for line in lines if line.split()[0] in ids))
    for name in ("index", "words"):
        (tmp_path / name).symlink_to(inputs / name)
    run(tmp_path, tmp_path / "made", f"{HOW} --epochs 2")
    assert weights_of(tmp_path / "made") == weights_of(made / "fold-2")
    first, second = (Checkpoint.open(folder) for folder in (tmp_path / "made", made / "fold-2"))
    assert first.description["measures"] == second.description["measures"]


def searched(inputs, made, name, output, candidates):
    """The lines of all queries that search writes with the checkpoint of a fold."""
    options = f"--index {inputs}/index --queries {inputs}/all.tsv {candidates}"
    search.main(f"{options} --reranker {made}/fold-{name} --output {output}".split())
    return output


def test_each_query_is_ranked_by_the_model_of_its_fold(inputs, made, tmp_path):
    """The lines of the run are those that search writes with the fold's checkpoint, and not those with another's."""
    assert list(read_run(made / RUN_FILE)) == IDS
    for name, ids in folds_of(made).items():
        run_file = searched(inputs, made, name, tmp_path / f"{name}.run", f"--run {inputs}/all.run")
        others = [id for id in IDS if id not in ids]
        assert lines_of(run_file, ids) == lines_of(made / RUN_FILE, ids)
        assert lines_of(run_file, others) != lines_of(made / RUN_FILE, others)


def test_folds_over_the_whole_collection(inputs, tmp_path):
    """With every document as a candidate, the depth cuts the rankings and not the candidates."""
    options = f"--index {inputs}/index --words {inputs}/words --train {inputs}/all.tsv,{inputs}/all.qrels --folds 2"
    how = "--model ktrel-w --set layers=0 factor=1 --loss softmax --negatives collection --first-stage all --depth 4"
    train.main([*f"{options} {how} --epochs 2 --output {tmp_path}/made".split()])
    for name, ids in folds_of(tmp_path / "made").items():
        index.main(f"--index {inputs}/index --encode {tmp_path}/made/fold-{name}".split())  # the same arithmetic
        run_file = searched(inputs, tmp_path / "made", name, tmp_path / f"{name}.run", "--first-stage all --depth 4")
        assert lines_of(run_file, ids) == lines_of(tmp_path / "made" / RUN_FILE, ids)
    assert {len(ranking.doc_ids) for ranking in read_run(tmp_path / "made" / RUN_FILE).values()} == {4}


def test_the_table(inputs, made):
    """Values by hand from the run, the candidates and the checkpoints."""
    judged = judgments(str(inputs / "all.qrels"))
    runs = [read_run(inputs / "all.run"), read_run(made / RUN_FILE)]
    table = (made / TABLE_FILE).read_text()
    header, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()[:6]]
    assert header == ["fold", "queries", "best epoch"] + [
        f"{kind} {name}" for name in ("AP", "P@3") for kind in ("validation", "candidates", "re-ranked")
    ]
    for row, (name, ids) in zip(rows, [*folds_of(made).items(), ("all", IDS)], strict=True):
        assert row[:2] == [name, str(len(ids))]
        means = [mean_measures(run, {id: judged[id] for id in ids}, ["AP", "P@3"]) for run in runs]
        for measure, (validation, before, after) in {"AP": row[3:6], "P@3": row[6:9]}.items():
            assert before == f"{means[0][measure]:.4f}"
            assert after[:-1] == f"{means[1][measure]:.4f}" and after[-1] in "+-="
            if name != "all":
                measures = Checkpoint.open(made / f"fold-{name}").description["measures"]
                assert validation == f"{measures[measure]:.4f}" and row[2] == f"{measures['epoch']} of 2"
    assert rows[-1][2:4] == ["", ""]


def test_the_same_folds_again(inputs, made, tmp_path, capsys):
    """The written file of folds gives the same output in another folder, byte for byte."""
    cross_validate(inputs, tmp_path / "again", HOW, folds=made / FOLDS_FILE)
    assert everything(tmp_path / "again") == everything(made)
    output = capsys.readouterr().out
    assert (made / TABLE_FILE).read_text() in output and str(tmp_path / "again") in output


def test_resuming(inputs, made, tmp_path, monkeypatch):
    """Killed in the second fold's second validation: the first fold is not trained again, and all ends the same."""
    with validation_killed(monkeypatch, 4):
        cross_validate(inputs, tmp_path / "made", HOW)
    assert [path.name for path in tmp_path.iterdir()] == ["made.training"]
    work = tmp_path / "made.training"
    first = (work / "fold-1" / "model.safetensors").stat()
    assert (work / "fold-2.training" / "state.json").exists() and not (work / "fold-3").exists()
    with pytest.raises(InputError, match="made.training holds an interrupted cross-validation: resume"):
        cross_validate(inputs, tmp_path / "made", HOW)
    with pytest.raises(InputError, match="made.training holds a cross-validation"):
        run(inputs, tmp_path / "made")
    for other, named in [("--seed 1", "training, folds"), ("--measures AP", "measures")]:
        with pytest.raises(InputError, match=rf"other settings \({named}"):
            cross_validate(inputs, tmp_path / "made", HOW, "--resume", other)
    cross_validate(inputs, tmp_path / "made", HOW, "--resume")
    assert everything(tmp_path / "made") == everything(made)
    assert (tmp_path / "made" / "fold-1" / "model.safetensors").stat()[1:3] == first[1:3]  # the same file
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_keeping_epochs(inputs, made, tmp_path):
    cross_validate(inputs, tmp_path / "made", HOW, "--keep-epochs")
    kept = everything(tmp_path / "made")
    assert {name: text for name, text in kept.items() if "epochs" not in name} == everything(made)
    for name in folds_of(made):
        epoch = Checkpoint.open(made / f"fold-{name}").description["measures"]["epoch"]
        assert kept[f"fold-{name}/epochs/0{epoch}/model.safetensors"] == kept[f"fold-{name}/model.safetensors"]
        Checkpoint.open(tmp_path / "made" / f"fold-{name}" / "epochs" / "02").module()


def test_candidates_and_features_are_made_once(inputs, tmp_path, monkeypatch):
    calls = []

    def counted(owner, name):
        function = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: calls.append(name) or function(*arguments))

    counted(session, "make_pools")
    counted(session.word_vectors, "load")
    counted(session.Session, "find_candidates")
    cross_validate(inputs, tmp_path / "made", "--epochs 1 --document-words 4")
    assert calls.count("make_pools") == calls.count("find_candidates") == 1
    assert calls.count("load") == 1 + 3  # and once with each fold's checkpoint, when it ranks its fold


def test_the_depths(inputs, tmp_path):
    """Candidates are cut to the depth; only those of the validation to its own depth."""
    more = "--epochs 1 --measures P@30 --depth 40"
    cross_validate(inputs, tmp_path / "deep", more, folds=2)
    cross_validate(inputs, tmp_path / "cut", more, "--validation-depth 2", folds=2)
    ranked = read_run(tmp_path / "cut" / RUN_FILE)
    assert {len(ranking.doc_ids) for ranking in ranked.values()} == {40}
    assert Checkpoint.open(tmp_path / "cut" / "fold-1").description["measures"]["P@30"] <= 2 / 30
    assert weights_of(tmp_path / "deep" / "fold-1") == weights_of(tmp_path / "cut" / "fold-1")


def test_a_start_that_has_seen_the_folds_is_named(inputs, tmp_path, capsys):
    run(inputs, tmp_path / "other", "--epochs 1")
    run(inputs, tmp_path / "same", "--epochs 1", training="all", validation_run="dev.run", validation="new")
    for name, warned in [("other", False), ("same", True)]:
        cross_validate(inputs, tmp_path / f"from-{name}", f"--epochs 1 --start-from {tmp_path / name}")
        assert ("its weights have seen every fold" in capsys.readouterr().err) is warned


def test_err_has_one_scale(inputs, corpus, tmp_path):
    """Of all queries only one has a document of grade 3: ERR counts to 3 for the others', too."""
    lines = (inputs / "all.qrels").read_text().splitlines(keepends=True)
    low = "".join(line for line in lines if line.startswith("q-gout ") or not line.endswith(" 3\n"))
    (tmp_path / "low.qrels").write_text(low)
    made, judged = tmp_path / "made", judgments(str(tmp_path / "low.qrels"))
    cross_validate(inputs, made, f"--train {inputs}/all.tsv,{tmp_path}/low.qrels --measures ERR@20 --epochs 1", folds=2)
    run, values, folds = read_run(made / RUN_FILE), {}, folds_of(made)
    for name, ids in {**folds, "all": IDS}.items():
        evaluator = Evaluator({id: judged[id] for id in ids}, ["ERR@20"], highest=3)
        values[name] = f"{evaluator.values(run)['ERR@20'].mean():.4f}"
    rows = [line.split("|") for line in (made / TABLE_FILE).read_text().splitlines()[2:5]]
    assert {row[1].strip(): row[-2].strip()[:-1] for row in rows} == values
    [folder] = [made / f"fold-{name}" for name, ids in folds.items() if "q-gout" in ids]
    validated = Checkpoint.open(folder).description["training"]["validation_queries"]  # none of them has a 3
    asked = [query for query in learnable.queries(learnable.TOPICS) if query.id in validated]
    found = small.candidates(corpus, scores=np.arange(len(corpus), 0, -1, np.float32))
    held_out = HeldOut(asked, {id: judged[id] for id in validated}, dict.fromkeys(validated, found), 3)
    checkpoint = Checkpoint.open(folder)
    reranker = NeuralReranker(checkpoint.module(), checkpoint.vocabulary, corpus)
    measured = Validation(held_out, reranker, ["ERR@20"])()
    assert checkpoint.description["measures"]["ERR@20"] == pytest.approx(measured["ERR@20"], abs=1e-6)


def test_queries_of_the_same_words_are_named(inputs, tmp_path, capsys):
    queries = (inputs / "all.tsv").read_text().replace("q-malaria\tmalaria", "q-malaria\tAsthma")
    (tmp_path / "all.tsv").write_text(queries)
    lines = [f"{id}\t{'ab'[number % 2]}\n" for number, id in enumerate(IDS)]  # asthma is the first, malaria the 12th
    (tmp_path / "folds.tsv").write_text("".join(lines))
    twice = f"--train {tmp_path / 'all.tsv'},{inputs / 'all.qrels'} --epochs 1"
    cross_validate(inputs, tmp_path / "made", twice, folds=tmp_path / "folds.tsv")
    assert "q-asthma (fold a) = q-malaria (fold b)" in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "made").glob("fold-*")} == {"fold-a", "fold-b"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--folds 1", "judged queries make 2 to 12"),
        ("--folds 13", "judged queries make 2 to 12"),
        ("--folds no-such-file.tsv", "no-such-file.tsv"),
        ("--fold-validation 8", "hold out 8 for validation: the 8 queries outside the fold 1 "),
        ("--measures no-such-measure", "no-such-measure"),
    ],
)
def test_wrong_options(inputs, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        cross_validate(inputs, tmp_path / "made", options)
    assert not any(tmp_path.iterdir())


def test_another_training_is_not_touched(inputs, tmp_path, monkeypatch):
    with validation_killed(monkeypatch):
        run(inputs, tmp_path / "made")
    with pytest.raises(InputError, match="made.training holds another training"):
        cross_validate(inputs, tmp_path / "made", "--resume")
    assert (tmp_path / "made.training" / "state.json").exists()
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="made is not a cross-validation"):
        cross_validate(inputs, tmp_path / "made", "--overwrite")
