"""The KTRel experiments: plan, choices, pooled measures and page, and a small experiment on the sample."""

import json
import re

import numpy as np
import pytest

import rerank_plugin as rp
from experiments import overlap
from experiments.figures import Line, plot_sizes
from experiments.ktrel import KtrelPlan, mean_average_precision, read
from experiments.ktrel_measures import Measured, measure, once, unseen, words
from experiments.ktrel_page import published_line, value_cell
from experiments.ktrel_rows import BEST, BY_NAME, INGREDIENTS, MEASURES, PUBLISHED, RECIPE, RM3, ROWS
from experiments.ktrel_settings import KtrelSettings, Queries
from experiments.plan import merged
from experiments.trials import drawn, grid
from rerank_plugin import embed, index, search
from rerank_plugin.knowledge import __main__ as knowledge
from tests.evaluation.runs import ranked
from tests.experiments.conftest import built


def settings(tmp_path, **more):
    always = dict(work=tmp_path, output=tmp_path / "page.md", words="W", corpus="C", train=("T", "T2,J2"))
    tests = (("titles", "E"), ("descriptions", "Q.jsonl:type=d,J.tsv"))
    return KtrelSettings(**{**always, "validation": "V", "test": tests, "knowledge": "K", "concepts": "E2", **more})


def dry(tmp_path, **more):
    """The steps of a plan before anything has run."""
    return [step for stage in KtrelPlan(settings(tmp_path, **more), dry=True).stages() for step in stage]


def named(steps) -> dict:
    """Steps by their names without the digest."""
    return {re.sub(r"-\w{8}$", "", step.name): step for step in steps}


def options_of(step) -> dict:
    """A command's options by name; a list for those that are repeated."""
    found, name = {}, ""
    for word in step.command[1:]:
        name = word if word.startswith("--") else name
        found.setdefault(name, []).extend([] if word.startswith("--") else [word])
    return found


# Constants.


def test_published_values_are_those_of_the_paper():
    """Some of table 1, and what its text says of them: +33.9% MAP, +36.3% recall, +16.3% P@5, +1.2% nDCG@5."""
    values = {name: dict(zip(MEASURES, of_row)) for name, of_row in PUBLISHED.items()}
    assert values["ktrel"]["AP"] == "0.2411+" and values["duet"]["nDCG@5"] == "0.1857-"
    assert values["drmm"]["R@1000"] == "0.7051+" and values["biobert"]["P@20"] == "0.2373+"
    for measure_name, percent in (("AP", 33.9), ("R@1000", 36.3), ("P@5", 16.3), ("nDCG@5", 1.2), ("P@10", 26.5)):
        ktrel, rm3 = (float(values[row][measure_name].rstrip("+-")) for row in ("ktrel", RM3))
        assert round(100 * (ktrel / rm3 - 1), 1) == pytest.approx(percent, abs=0.11)
    assert all(len(of_row) == len(MEASURES) == 8 for of_row in PUBLISHED.values())
    assert not any(mark in value for value in PUBLISHED[RM3] for mark in "+-")  # the row that others are compared with


def test_rows_in_the_paper_s_order():
    published = [row.name for row in ROWS if row.name in PUBLISHED]
    assert published == list(PUBLISHED) == [row.name for row in ROWS[: len(PUBLISHED)]]
    assert len({row.title for row in ROWS}) == len(BY_NAME) == len(ROWS)
    assert all(name in {*BY_NAME, BEST} for row in ROWS for name in row.stages)
    assert {ingredient.base for ingredient in INGREDIENTS} <= set(BY_NAME)
    assert len({ingredient.name for ingredient in INGREDIENTS}) == len(INGREDIENTS)


def test_the_grid_is_the_paper_s():
    trials = grid("ktrel-w")
    assert len(trials) == len(set(trials)) == 4 * 4 * 3 * 5
    assert trials[-1].options == ("--batch-size", "50", "--set", "heads=10", "feed_forward=500", "dropout=0.5")


def test_later_options_replace_earlier_ones():
    first = ["--epochs", "3", "--set", "a=1", "b=2", "--resume"]
    options = merged(first, ["--set", "b=3", "c=4"], ["--epochs=5", "--set=a=x=y"])
    assert options == ("--epochs", "5", "--set", "a=x=y", "b=3", "c=4", "--resume")
    assert merged(["--measures", "AP", "P@5"], ["--measures", "AP"]) == ("--measures", "AP")
    assert merged(options, []) == options


# The plan.


def test_specs_are_taken_apart_for_searches():
    pair, single = Queries("a", "a.jsonl:x=y,b.tsv"), Queries("b", "data:test")
    assert (pair.texts, pair.judgments) == ("a.jsonl:x=y", "b.tsv")
    assert single.texts == single.judgments == "data:test"


CROSS = dict(only=("cross-encoder",), encoder="E", stem="krovetz", ingredients=())


def test_cross_encoders_read_whole_words(tmp_path):
    more = dict(cross_precision="bfloat16", row_epochs=(("cross-encoder", "2"),))
    steps = named(dry(tmp_path, **CROSS, **more))
    read = [options_of(step)["--index"] for name, step in steps.items() if "cross-encoder" in name]
    assert len(read) == 3 and all(index == [str(steps["indexes-plain"].output)] for index in read)
    training = " ".join(map(str, steps["checkpoints-cross-encoder"].command))
    assert "--epochs 2" in training and "--precision bfloat16" in training
    assert "--stem" not in steps["indexes-plain"].command and "--stem" in steps["indexes-index"].command


@pytest.mark.parametrize(
    ("more", "steps"),
    [(dict(plain_words="P", weak=("W",)), 200), (dict(only=("knrm",), trials=24), 25), (CROSS, 5)],
)
def test_every_step_needs_only_what_earlier_stages_made(tmp_path, more, steps):
    made, names = set(), set()
    for stage in KtrelPlan(settings(tmp_path, **more), dry=True).stages():
        of_stage = {str(step.output) for step in stage}
        assert len(of_stage) == len(stage)
        for step in stage:
            assert step.name not in names and "/" not in step.name
            names.add(step.name)
            own = {str(step.output)}
            paths = (word.split(":", 1)[-1] if word[0] != "/" else word.split(":")[0] for word in step.command)
            used = {path for path in paths if str(tmp_path) in path} - own
            assert used <= made, step.shown
        made |= of_stage
    assert len(names) > steps


def test_the_best_row_of_our_recipe_is_chosen_on_the_validation_queries(tmp_path, monkeypatch):
    reached = {"ktrel-c-ours": 0.1, "ktrel-w-ours": 0.3, "ktrel-ours": 0.2, "ktrel-w-titles": 0.4, "ktrel-titles": 0.35}
    monkeypatch.setattr(KtrelPlan, "training", lambda self, row: row)
    monkeypatch.setattr(KtrelPlan, "reached", lambda self, row: {"AP": reached[row.name]})
    for more, expected in (
        ({"weak": ("W",)}, "ktrel-w-titles"),
        ({}, "ktrel-w-ours"),
        ({"only": ("hybrid",)}, "ktrel-ours"),
    ):
        plan = KtrelPlan(settings(tmp_path, **more))
        assert plan.stages_of(BY_NAME["hybrid"]) == [BY_NAME[RM3], BY_NAME[expected]]
        assert plan.stages_of(BY_NAME["feedback"]) == plan.stages_of(BY_NAME["neighbours"]) == [BY_NAME[expected]]
        assert {row.name for row in plan.needed()} >= {row.name for row in plan.of_our_recipe()}


def test_without_corpora_nothing_is_pre_trained(tmp_path):
    assert not any(row.pretrained for row in KtrelPlan(settings(tmp_path)).needed())
    assert not any("pretrained" in step.name or "titles-index" in step.name for step in dry(tmp_path))
    steps = named(dry(tmp_path, weak=("W", "V")))
    assert options_of(steps["titles-titles"])["--corpus"] == ["W", "V"]
    before = options_of(steps["checkpoints-pretrained"])
    assert before["--queries-per-document"] == ["1"] and before["--model"] == ["ktrel-w"]
    after = options_of(steps["checkpoints-ktrel-titles"])
    assert after["--start-from"] == [str(steps["checkpoints-pretrained"].output)]
    assert "--start-from" not in options_of(steps["checkpoints-ktrel-ours"])
    assert after["--words"] == before["--words"] == [str(steps["words-extended"].output)]
    assert options_of(steps["ingredients-words-unknown"])["--words"] == ["W"] != after["--words"]


def test_all_commands_are_accepted(tmp_path):
    """Every training's options are parsed, and its model is built from them; so are searches and encodings."""
    from rerank_plugin import options as commandline

    for step in dry(tmp_path, plain_words="P"):
        words = step.command[1:]
        if step.command[0] == "train":
            options, training, config = built(step)
            commandline.first_stage_config(options)
            reads = "ktrel" in options.model and type(config).parts != "words"
            assert reads == (options.concepts is not None)
            assert options.measures == ["AP", "nDCG@10"] and len(options.train) in (1, 2)
            if options.model == "duet":
                assert config.parts == "both" and options.training_documents == "collection"
            if "margin" in step.name:
                assert training.loss == "hinge" and training.weights == "none" and training.batch_size == 20
        elif step.command[0] == "search":
            commandline.first_stage_config(search.arguments().parse_args(words))
        elif step.command[0] == "index":
            index.arguments().parse_args(words)
        else:
            assert step.command[0] in ("fuse", "embed")


def test_trainings_are_as_the_paper_and_the_recipe_say(tmp_path):
    steps = named(dry(tmp_path, trials=0, epochs=7, recipe_epochs=20))
    paper = options_of(steps["checkpoints-ktrel"])
    assert paper["--epochs"] == ["7"] and paper["--batch-size"] == ["20"]
    assert "heads=2" in paper["--set"] and "--loss" not in paper
    assert paper["--train"] == ["T", "T2,J2"] and paper["--first-stage"] == ["all"]
    ours = options_of(steps["checkpoints-ktrel-ours"])
    assert ours["--loss"] == ["softmax"] and ours["--epochs"] == ["20"]  # at most: the recipe has 40
    assert set(RECIPE[RECIPE.index("--set") + 1 :]) == set(ours["--set"])
    assert options_of(steps["checkpoints-ktrel-ours@100"])["--train-queries"] == ["100"]
    assert options_of(steps["ingredients-titles"])["--train"] == ["T"]
    assert "ingredients-recipe" not in steps  # it is the row
    layer = options_of(steps["ingredients-words-layer"])["--set"]
    assert "layers=1" in layer and "layers=0" not in layer and "document_words=250" in layer
    assert options_of(steps["ingredients-margin"])["--sampling"] == ["batch"]
    assert not any("plain" in name for name in steps)
    delta = options_of(steps["checkpoints-hybrid-delta"])
    assert delta["--first-stage"] == ["bm25+rm3"] and delta["--fuse"][0].startswith("dense:")
    assert delta["--fusion-weight"] == ["0.5", "0.5"] and "first_stage_share" in delta["--lexical-features"]


def test_ingredients_with_fewer_epochs_are_compared_with_the_recipe_of_as_many(tmp_path):
    steps = named(dry(tmp_path, ingredient_epochs=3))
    assert options_of(steps["ingredients-recipe"])["--epochs"] == ["3"]
    assert options_of(steps["checkpoints-ktrel-ours"])["--epochs"] == ["40"]


def test_outputs_are_named_after_what_leads_to_them(tmp_path):
    """Another option of the trainings gives other checkpoints and runs of them, and keeps what is not trained."""
    before, after = ({step.name for step in dry(tmp_path, train_option=more)} for more in ((), ("--l2-convolution=1",)))
    assert {name for name in before & after if "ktrel" in name} == set()
    assert all(re.match("indexes|concepts|words|runs-.*-(bm25|rm3)", name) for name in before & after)
    assert len(before) == len(after) and any("bm25" in name for name in before & after)


def test_some_rows_only(tmp_path):
    steps = dry(tmp_path, only=("hybrid-delta",), trials=3)
    trained = [step.name for step in steps if step.command[0] == "train"]
    assert [re.sub(r"-\w{8}$", "", name) for name in trained] == ["checkpoints-ktrel-ours", "checkpoints-hybrid-delta"]
    plan = KtrelPlan(settings(tmp_path, only=("hybrid-delta",)))
    assert [row.name for row in plan.rows()] == [RM3, "hybrid-delta"]
    assert [row.name for row in plan.needed()] == [RM3, "ktrel-ours", "hybrid", "hybrid-delta"]
    assert not plan.figure_rows() and not plan.ingredients()
    assert "titles" not in {ingredient.name for ingredient in KtrelPlan(settings(tmp_path, train=("T",))).ingredients()}


def test_few_validation_candidates(tmp_path):
    steps = named(dry(tmp_path, validation_candidates=50))
    options = options_of(steps["checkpoints-drmm"])
    assert options["--validation-run"] == [str(steps["runs-validation-bm25-rm3"].output)]
    assert options["--validation-depth"] == ["50"] and options["--first-stage"] == ["all"]
    assert options_of(steps["checkpoints-ktrel"])["--validation-run"] == options["--validation-run"]
    assert "--validation-run" not in options_of(steps["checkpoints-ktrel-ours"])


# Choosing.


def test_of_equal_values_the_first_is_chosen(tmp_path):
    assert KtrelPlan(settings(tmp_path)).chosen([3, 1, 2], {1: 0.5, 2: 0.5, 3: 0.2}.get) == 1


def test_trials_are_drawn_by_the_seed():
    some, more = drawn("ktrel", 3, 1), drawn("ktrel", 8, 1)
    assert more[:3] == some and len(set(more)) == 8 and set(more) <= set(grid("ktrel"))
    assert drawn("ktrel", 8, 2) != more != drawn("ktrel-w", 8, 1)
    assert set(drawn("ktrel", 999, 1)) == set(grid("ktrel")) == set(grid("ktrel-w")) != set(grid("drmm"))


def test_bm25_is_chosen_by_the_validation_runs(tmp_path, monkeypatch):
    """Two runs by hand: the relevant document at rank 2 (AP 1/2), and at rank 1 (AP 1)."""
    plan = KtrelPlan(settings(tmp_path, k1=(1.0, 2.0), b=(0.5,)))
    monkeypatch.setattr(KtrelPlan, "validation_judgments", {"q": {"d1": 1, "d9": 0}})
    for tried, order in zip(plan.settings.bm25(), ("21", "12")):
        step = plan.validation_search(tried)
        step.output.parent.mkdir(parents=True, exist_ok=True)
        rp.write_run(step.output, {"q": ranked(*(f"d{number}" for number in order))}, "t")
    assert plan.bm25.shown == "k1 2.0, b 0.5"
    assert "--k1 2.0 --b 0.5" in " ".join(plan.validation_search(plan.settings.rm3(plan.bm25)[0]).command)


def test_a_kept_map_is_that_of_the_run(tmp_path):
    run = tmp_path / "a.run"
    for order, value in ((["d2", "d1"], 0.5), (["d1", "d2"], 1.0)):
        rp.write_run(run, {"q": ranked(*order)}, "t", overwrite=True)
        assert [mean_average_precision(run, {"q": {"d1": 1}}) for _ in range(2)] == [value] * 2
    kept = json.loads((tmp_path / "a.ap.json").read_text())
    assert kept == {"AP": 1.0}


@pytest.mark.parametrize("name", ["ktrel-w", "conv-knrm"])
def test_hyper_parameters_are_chosen_by_their_trials(tmp_path, monkeypatch, name):
    plan = KtrelPlan(settings(tmp_path, trials=4, seeds=3, epochs=9, row_epochs=(("conv-knrm", "7"),)))
    row = BY_NAME[name]
    tried = plan.trials(row)
    values = {plan.trial_training(row, trial).name: value for trial, value in zip(tried, (0.1, 0.3, 0.2, 0.3))}
    monkeypatch.setattr(KtrelPlan, "reached", lambda self, step: {"AP": values[step.name], "nDCG@10": 0.0})
    assert plan.trial(row) == tried[1]
    assert set(tried[1].options) <= set(plan.training(row).command)
    command = " ".join(map(str, plan.training(row).command))
    assert ("--epochs 7" in command, "--epochs 9" in command) == (name == "conv-knrm", name != "conv-knrm")
    trainings = [plan.training(row, seed=seed) for seed in plan.settings.training_seeds]
    assert trainings[0] == plan.training(row) and len({training.output for training in trainings}) == 3


# Measuring.


# The same id in two sets, with other texts.
TEXTS = {
    "titles": [rp.Query("q1", "Heart attack?"), rp.Query("q2", "aspirin")],
    "descriptions": [rp.Query("q1", "what happens to the heart")],
}
SETS = {"titles": {"q1": {"a": 1}, "q2": {"b": 1}}, "descriptions": {"q1": {"a": 1}}}


def test_sets_are_measured_one_by_one_and_pooled():
    runs = {
        "x": {"titles": {"q1": ranked(*"ab"), "q2": ranked(*"ab")}, "descriptions": {"q1": ranked(*"bca")}},
        "y": {"titles": {"q1": ranked(*"ba")}, "descriptions": {"q1": ranked("a")}},
    }
    found = measure(SETS, runs, ["AP", "P@5"])
    assert found.queries == [("titles", "q1"), ("titles", "q2"), ("descriptions", "q1")]
    assert found.values["x"]["AP"].tolist() == pytest.approx([1, 1 / 2, 1 / 3])
    assert found.values["y"]["AP"].tolist() == pytest.approx([1 / 2, 0, 1])  # a query without a run counts as 0
    assert found.means("x") == pytest.approx({"AP": (1 + 1 / 2 + 1 / 3) / 3, "P@5": 1 / 5})
    assert found.of_set("titles").means("y")["AP"] == pytest.approx(1 / 4)
    assert found.of_set("titles").queries == found.queries[:2]


def test_judgments_of_other_queries_do_not_count(tmp_path):
    (tmp_path / "q.tsv").write_text("b\tx\n")
    (tmp_path / "j.qrels").write_text("a 0 d 1\nb 0 d 1\n")
    queries, judgments = read(Queries("x", f"{tmp_path}/q.tsv,{tmp_path}/j.qrels"))
    assert [query.id for query in queries] == ["b"] and judgments == {"b": {"d": 1}}


def test_texts_that_training_has_seen():
    training = [rp.Query("t", "HEART-attack"), rp.Query("u", "aspirin 81 mg")]
    assert words("Heart attack?") == "heart attack"
    assert unseen(TEXTS, training) == {("titles", "q2"), ("descriptions", "q1")}


def test_a_query_of_several_sets_is_tested_once():
    """Where its words are the same: titles that are video titles, too."""
    again = {**TEXTS, "video-titles": [rp.Query("q1", TEXTS["titles"][0].text.upper()), rp.Query("q3", "other")]}
    assert once(again) == {*once(TEXTS), ("video-titles", "q3")}
    assert once(TEXTS) == {(name, query.id) for name, queries in TEXTS.items() for query in queries}


def test_differences_are_tested_in_pairs_and_corrected():
    from scipy.stats import ttest_rel

    random = np.random.default_rng(1)
    x, y = random.random(30), random.random(30)
    found = Measured([("s", str(at)) for at in range(30)], {"x": {"AP": x}, "y": {"AP": y}})
    raw = ttest_rel(x, y).pvalue
    assert found.comparison("x", "y", "AP", 1).p == pytest.approx(raw)
    assert found.comparison("x", "y", "AP", 4).p == pytest.approx(min(1.0, 4 * raw))
    assert found.comparison("x", "y", "AP", 1).difference == pytest.approx((x - y).mean())
    signs = {found.mark(*pair, "AP", 1, 1.0) for pair in (("x", "y"), ("y", "x"))}
    assert signs == {"<sup>+</sup>", "<sup>-</sup>"} and found.mark("x", "y", "AP", 1, raw / 2) == ""


# The page.


def test_cells():
    assert value_cell(0.25, 0.5) == "0.2500" and value_cell(0.5, 0.5) == "**0.5000**"
    assert published_line("drmm")[:2] == ["*in the paper*", "*0.2940*"]
    assert published_line("ktrel")[-1] == "*0.8520*<sup>+</sup>"


def test_a_figure_by_sizes(tmp_path):
    lines = [Line("a", [0.1, 0.2], [False, True]), Line("b", [0.3, 0.2], [False, False])]
    plot_sizes([10, 20], lines, {"BM25": 0.15}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.real_data
def test_five_titles_of_nfcorpus_are_training_or_validation_queries(real_data, tmp_path):
    folder = real_data / "nfcorpus"
    titles, judged = read(Queries("titles", f"{folder}:test"))
    described = f"{folder}/queries_by_type.jsonl:split=test:type=vid-desc,{folder}/qrels/test.tsv"
    assert (len(judged), len(read(Queries("descriptions", described))[1])) == (323, 102)
    specs = dict(train=(f"{folder}:train.graded",), validation=f"{folder}:dev")
    plan = KtrelPlan(settings(tmp_path, **specs))
    for known, repeated in ((plan.training_queries(), set()), (plan.known_queries(), {"PLAIN-3131"})):
        found = {query.id for query in titles} - {id for _, id in unseen({"titles": titles}, known)}
        assert found == {"PLAIN-2440", "PLAIN-2630", "PLAIN-3053", "PLAIN-3251", *repeated}
    strata = overlap.strata(judged, plan.training_judgments())
    assert len(strata) == 4 and sum(map(len, strata.values())) == 323


def test_from_the_command_to_the_page(tmp_path, page_of):
    """A row of every kind on the sample, with very small trainings: tables and figures."""
    knowledge.main(["compile", "--source", "sample", "--output", str(tmp_path / "kb")])
    concepts = ["concepts", "--knowledge", str(tmp_path / "kb"), "--output", str(tmp_path / "c")]
    embed.main([*concepts, "--dimension", "20", "--epochs", "1"])
    page, figures = page_of(
        "ktrel --corpus sample --train sample:train --validation sample:dev --test titles sample:test --test again "
        f"sample:test --weak sample --weak-queries 40 --weak-epochs 1 --knowledge {tmp_path}/kb "
        f"--concepts {tmp_path}/c --recipe-epochs 1 "
        "--pairs 1 --trials 1 --trial-epochs 1 --seeds 2 --sizes 10 all --feedback-documents 3 --feedback-weights 0.5 "
        "--figure-models drmm ktrel-ours --ingredients recipe margin --k1 0.9 --b 0.4 0.75 --rm3-terms 10 "
        "--rm3-documents 5 --rm3-weights 0.5 --fusion-step 0.25 --depth 60 --rerank-depth 15 "
        "--validation-candidates 10 --only bm25 drmm bert ktrel-w ktrel-ours ktrel-titles hybrid hybrid-rrf "
        "hybrid-delta hybrid-neighbours "
        "--train-option=--batch-size=64 --train-option=--set=document_words=30"
    )
    headings = "Table 1;Titles: ;Titles by overlap;All test queries (titles, again);Against the hybrid: titles;2 seeds;"
    for heading in f"{headings}What each contributed;Figure 2;What the validation;The trainings;The steps".split(";"):
        assert re.search(rf"^##+ {re.escape(heading)}", page, re.MULTILINE), heading
    for title in ("BM25", "BM25-RM3", "DRMM", "KTRel, our recipe", "BM25-RM3, KTRel with feedback, similar queries"):
        rows = [line.split("|")[2:-1] for line in page.splitlines() if line.startswith(f"| {title} |")]
        rows = [row for row in rows if len(row) == len(MEASURES)]
        assert len(rows) >= 2
        plain = [[cell.split("<")[0].strip(" *") for cell in row] for row in rows]
        assert plain[0] == plain[1]  # the same queries twice: the means of the pool are those of the set
    assert re.search(
        r"two-tailed paired t-test over (\d+) queries, .*over \1 queries \(those in several sets once\)", page, re.S
    )
    assert "| BERT | not run |" in page and page.count("*in the paper*") == 5
    assert "for 9 comparisons a measure" in page
    assert len(figures) == len(set(figures)) == 2
