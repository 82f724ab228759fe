"""Options that are made from configurations, and the help they are shown in."""

from importlib import import_module

import pytest

from rerank_plugin import options as commandline
from rerank_plugin.corpora.weak_labels import WeakLabelsConfig
from rerank_plugin.files.settings import chosen
from rerank_plugin.indexes.nearest import AnnConfig
from rerank_plugin.knowledge.transe import TransEConfig
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.text.word_vectors import Word2VecConfig
from rerank_plugin.training.config import TrainingConfig


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
        ("--no-decay --filtered --margin 2", TransEConfig(decay=False, filtered=True, margin=2.0)),
        ("--compile --batch-size 7", RerankerOptions(compile=True, batch_size=7, fast=False)),
        ("--nlist 5", AnnConfig("ivf", nlist=5)),
    ],
)
def test_what_is_given(line, expected):
    more = {RerankerOptions: {"fast": False}, AnnConfig: {"kind": "ivf"}}.get(type(expected), {})
    assert commandline.configured(type(expected), parsed(type(expected), line), **more) == expected


def test_where_something_else_has_the_defaults_only_what_is_given_counts():
    options = parsed(TrainingConfig, "--epochs 3 --learning-rate 0.5", given_only=True)
    assert chosen(TrainingConfig, vars(options)) == {"epochs": 3, "learning_rate": 0.5}


def test_values_that_are_no_choice(capsys):
    with pytest.raises(SystemExit):
        parsed(TransEConfig, "--norm 3")
    assert "invalid choice: 3" in capsys.readouterr().err


@pytest.mark.parametrize("command", "bench clicks evaluate fuse index search train weak".split())
def test_help_begins_with_what_most_people_need(command):
    """Some five options, and alternatives to them, before all groups; those of every command are the last."""
    text = import_module(f"rerank_plugin.{command}").arguments().format_help()
    usage, options = text.split("\n\n")[0], text.split("\noptions:\n")[1].split("\n\n")[0]
    assert 4 <= options.count("\n  --") <= 7 and usage.count("\n") <= 3 and "[options]" in usage
    assert "\n  --" not in text.split("\ncommon options:\n")[1].split("\n\n", 1)[1]
