"""Options that are made from configurations, and the help they are shown in."""

import math
import re
from importlib import import_module
from pathlib import Path

import pytest

from rerank_plugin import options as commandline
from rerank_plugin.__main__ import COMMANDS
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import chosen_values, settings
from rerank_plugin.clicks.weak_labels import WeakLabelsConfig
from rerank_plugin.indexes.vector_store_writer import ListsConfig
from rerank_plugin.knowledge.transe import TransEConfig
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.retrieval.hybrid import HybridConfig
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.text.word_vectors import Word2VecConfig
from rerank_plugin.training.config import TrainingConfig
from rerank_plugin.training.distillation_texts import DistillationConfig
from tests.processes import status_of


def parsed(config, line="", **more):
    built = commandline.parser("x", "A command.")
    commandline.add_settings(built, config, **more)
    return built.parse_args(line.split())


@pytest.mark.parametrize("config", [RerankerOptions, TransEConfig, WeakLabelsConfig, Word2VecConfig])
def test_without_options_all_is_the_default(config):
    assert commandline.configured(config, parsed(config)) == config()


@pytest.mark.parametrize(
    "line, expected",
    [
        ("--min-count 3 --method cbow", Word2VecConfig(minimum_count=3, model="cbow")),
        ("--no-decay --margin 2", TransEConfig(decay=False, margin=2.0)),
        ("--compile --batch-size 7", RerankerOptions(compile=True, batch_size=7, fast=False)),
        ("--nlist 5 --nprobe 2", ListsConfig(lists=5, probes=2)),
    ],
)
def test_what_is_given(line, expected):
    more = {"fast": False} if isinstance(expected, RerankerOptions) else {}
    assert commandline.configured(type(expected), parsed(type(expected), line), **more) == expected


def test_where_something_else_has_the_defaults_only_what_is_given_counts():
    options = parsed(TrainingConfig, "--epochs 3 --learning-rate 0.5", given_only=True)
    assert chosen_values(TrainingConfig, vars(options)) == {"epochs": 3, "learning_rate": 0.5}


@pytest.mark.parametrize(
    "line, message",
    [
        ("--norm 3", "invalid choice: 3"),
        ("--epochs 0", "argument --epochs: must be at least 1"),
        ("--margin nan", "argument --margin: must be finite and above 0"),
        ("--margin x", "argument --margin: invalid float value: 'x'"),
    ],
)
def test_values_that_are_refused(line, message, capsys):
    with pytest.raises(SystemExit):
        parsed(TransEConfig, line)
    assert message in capsys.readouterr().err


CONFIGS = (LuceneConfig, HybridConfig, ListsConfig, ServiceConfig, TrainingConfig, DistillationConfig, TransEConfig)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_bound_is_checked(config):
    beyond = {"ge": -1, "gt": 0, "le": 1, "lt": 0}  # a bound
    bounds = [(name, bound) for name, (declared, _) in settings(config).items() for bound in declared.bounds.items()]
    for name, (kind, bound) in bounds:
        for value in (bound + beyond[kind], math.nan):
            with pytest.raises(InputError, match=f"{name} is {value}: it must be "):
                config(**{name: value})
    assert bounds


def test_the_page_has_the_default_of_every_limit_of_the_service():
    rows = re.findall(r"^\| (`--[^|]*) \| [^|]* \| ([0-9, ]+) \|$", Path("docs/service.md").read_text(), re.MULTILINE)
    pairs = [
        pair for row, values in rows for pair in zip(re.findall("--[a-z-]+", row), values.split(", "), strict=True)
    ]
    limits = [(name, default) for name, (declared, default) in settings(ServiceConfig).items() if declared.bounds]
    assert sorted(pairs) == sorted((commandline.flag(name), f"{default:,.0f}") for name, default in limits)


@pytest.mark.parametrize("command", "bench clicks distill evaluate fuse index search serve train weak".split())
def test_help_fits_a_screen_and_counts_the_other_options(command, capsys, monkeypatch):
    """The options that most people need; those of every command are the last of --help-all."""
    monkeypatch.setenv("COLUMNS", "80")
    short, full = (said(capsys, command, option) for option in ("--help", "--help-all"))
    options = r"^  (?:-h, )?--[a-z]"
    shown, known = (len(re.findall(options, text.split("\noptions:\n")[1], re.MULTILINE)) for text in (short, full))
    assert short.count("\n") <= 40 and 5 <= shown <= 12 and "[options]" in short.split("\n\n")[0]
    if shown < known:
        assert f"\n{known - shown} more options and all examples: rerank-plugin {command} --help-all\n" in short
    assert not re.search(options, full.split("\ncommon options:\n")[1].split("\n\n", 1)[1], re.MULTILINE)


def said(capsys, command, *arguments, status=0):
    """What a command says that ends with this status."""
    assert status_of(import_module(COMMANDS[command][0]).main, arguments) == status
    return "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "command, line, fault",
    [
        ("search", "--output a --output b", "argument --output: is given twice: give it once"),
        ("search", "--depth 3 --dep=3", "argument --depth: is given twice"),
        ("search", "--fusion-weight 1 --fusion-weight 2", "is given twice: give its values after one --fusion-weight"),
        ("embed", "concepts --decay --no-decay", "argument --decay/--no-decay: is given twice"),
        ("search", "--rerankr a", "unrecognized arguments: --rerankr a; did you mean --reranker?"),
        ("fuse", "a b --method rff", "argument --method: invalid choice: 'rff' (choose from"),
        ("fuse", "a b --method rff", "; did you mean rrf?"),
    ],
)
def test_what_is_given_twice_or_mistyped(capsys, command, line, fault):
    text = said(capsys, command, *line.split(), status=2)
    assert fault in text and text.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, query",
    [
        (["--query", "-omics"], "-omics"),
        (["--query=-omics"], "-omics"),
        (["--query", "-seq", "--index", "x", "--show", "3"], "-seq"),
        (["--query", "--unknown-word"], "--unknown-word"),
        (["--query", "-1"], "-1"),
        (["--query", "-omics of cells"], "-omics of cells"),
    ],
)
def test_a_text_may_begin_with_a_hyphen(arguments, query):
    from rerank_plugin import search

    assert search.arguments().parse_args(arguments).query == query


@pytest.mark.parametrize("following", ["--reranker delta", "--rerank delta", "--show=3", "-h", "--help-all", ""])
def test_an_option_is_no_text(capsys, following):
    assert "argument --query: expected one argument" in said(capsys, "search", "--query", *following.split(), status=2)


def test_what_may_be_repeated(capsys):
    assert "no index at none" in said(
        capsys,
        "search",
        *"--index none --query a --filter year:2015 --filter year:2016 --verbose --verbose".split(),
        status=2,
    )
