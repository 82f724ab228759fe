"""What all commands share: common options, options made from configurations, logging, and how an error ends a process.

The help of a command shows the required options in its usage, then what most people need, then further groups.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.extras import naming_extras
from rerank_plugin.files.progress import progress, set_up_logging  # noqa: F401 (commands take them from here)
from rerank_plugin.files.settings import chosen, settings

COMMON = "common options"
MODULES = "python -m rerank_plugin."  # before the name of a command, in all texts of this package


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, shows the defaults that say something, and in the usage only what is required."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False, []) else super()._get_help_string(action)

    def _format_usage(self, usage, actions, groups, prefix):
        if prefix == "":  # of a command with subcommands, whose names it begins
            return super()._format_usage(usage, actions, groups, prefix)
        groups = [group for group in groups if group.required]
        either = [action for group in groups for action in group._group_actions]
        needed = [one for one in actions if one.required or not one.option_strings or one in either]
        return super()._format_usage(usage, needed, groups, prefix).rstrip("\n") + " [options]\n\n"


class Parser(argparse.ArgumentParser):
    """Bad usage is one line on stderr and status 2, like any other bad input."""

    def error(self, message: str):
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")

    def _print_message(self, message: str, file=None) -> None:
        super()._print_message(as_called(message), file)

    def format_help(self) -> str:
        self._action_groups.sort(key=lambda group: group.title == COMMON)  # those of every command are last
        return super().format_help()

    def check_counts(self, options: argparse.Namespace, *names: str) -> None:
        """Refuse numbers below 1 of the options with these names; those that are not given may be."""
        for name in names:
            value = getattr(options, name)
            if value is not None and (min(value) if isinstance(value, list) else value) < 1:
                self.error(f"{flag(name)} must be at least 1")

    def subcommand(self, kinds, name: str, help: str, description: str, example: str) -> Parser:
        """The parser of one of several parts of the command, with the options every command takes."""
        part = kinds.add_parser(name, help=help, description=description, epilog=example, formatter_class=HelpFormatter)
        add_common_options(part)
        return part


def called() -> str:
    """What stands before the name of a command, as this process was called; ``MODULES`` for a module of its own."""
    program = Path(sys.argv[0])
    if program.parts[-2:] == ("rerank_plugin", "__main__.py"):
        return "python -m rerank_plugin "
    return "rerank-plugin " if program.stem == "rerank-plugin" else MODULES


def as_called(text: str) -> str:
    """A text that names commands as this one was called."""
    return text.replace(MODULES, called())


def flag(name: str) -> str:
    """The option whose value is the attribute ``name`` of the parsed options."""
    return f"--{name.replace('_', '-')}"


def parser(prog: str, description: str, epilog: str | None = None) -> Parser:
    """An argument parser that shows defaults, keeps line breaks and has the options every command takes."""
    built = Parser(
        prog=as_called(f"{MODULES}{prog}"), description=description, epilog=epilog, formatter_class=HelpFormatter
    )
    add_common_options(built)
    return built


def add_common_options(to: argparse.ArgumentParser) -> None:
    common = to.add_argument_group(COMMON)
    common.add_argument("--seed", type=int, default=42, help="seed of everything random")
    common.add_argument("--verbose", action="store_true", help="log details to stderr")


def parse(built: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """The options of a command line; logging is set up as they ask."""
    options = built.parse_args(argv)
    set_up_logging(options.verbose)
    return options


def add_settings(to, config: type, given_only: bool = False) -> None:
    """An option for each setting of a configuration (:mod:`rerank_plugin.files.settings`).

    Args:
        to: a parser or a group of its options.
        given_only: whether options that are not given are None, because something else decides then.
    """
    for setting, default in settings(config).values():
        how: dict = {"metavar": setting.metavar, "type": setting.type or type(default), "choices": setting.choices}
        if isinstance(default, bool):
            how = {"action": argparse.BooleanOptionalAction}
        elif isinstance(default, tuple):
            how |= {"type": setting.type or float, "nargs": "+"}
        if not (given_only or setting.otherwise or isinstance(default, tuple)):
            how["default"] = default
        to.add_argument(flag(setting.option), help=setting.help, **how)


def configured(config: type, options: argparse.Namespace, **more):
    """The configuration by the options of its settings and by the fields ``more``; an `InputError` if it cannot be."""
    return config(**chosen(config, vars(options)), **more)


def add_first_stage_options(to: argparse.ArgumentParser) -> None:
    """Options that choose a first stage and its settings, made from the register and the configurations."""
    from rerank_plugin.retrieval.fusion import FusionConfig
    from rerank_plugin.retrieval.register import FIRST_STAGES

    entries = FIRST_STAGES.ours()
    summaries = [f"{entry.form}, {entry.summary}" for entry in entries]
    summaries += [f"{name}, of another package" for name in FIRST_STAGES.installed()]
    first = to.add_argument_group("first stage")
    first.add_argument("--first-stage", default="bm25", metavar="STAGE", help="; ".join(summaries))
    for config in dict.fromkeys(entry.config for entry in entries):
        forms = ", ".join(entry.form for entry in entries if entry.config is config)
        add_settings(to.add_argument_group(f"settings of {forms}"), config)
    fusion = to.add_argument_group("fusion of first stages")
    fusable = ", ".join(entry.form for entry in entries if entry.fusable)
    help = f"fuse --first-stage with this one ({fusable}); may be repeated"
    fusion.add_argument("--fuse", action="append", default=[], metavar="STAGE", help=help)
    add_settings(fusion, FusionConfig)


def first_stage_config(options: argparse.Namespace):
    """The configuration of a command's first stage (:class:`rerank_plugin.retrieval.register.FirstStageConfig`).

    Raises:
        InputError: an unknown stage, or options that none can have.
    """
    from rerank_plugin.retrieval.fusion import FusionConfig
    from rerank_plugin.retrieval.register import configure, entry_of

    values = vars(options)
    if not options.fuse:
        if options.fusion_weight:
            raise InputError("--fusion-weight is for several stages: name the others with --fuse")
        return configure(options.first_stage, values)
    names = [options.first_stage, *options.fuse]
    unranked = [name for name in names if not entry_of(name).fusable]
    if unranked:
        raise InputError(f"--fuse takes searches: {', '.join(unranked)} ranks nothing that could be fused")
    return configured(FusionConfig, options, stages=tuple(configure(name, values) for name in names))


def named_values(given: Sequence[str]) -> dict[str, Any]:
    """The values of ``--set NAME=VALUE``, as JSON reads them, or else as they are.

    Raises:
        InputError: one is not NAME=VALUE, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise InputError(f"--set {one}: expected NAME=VALUE")
        if name in values:
            raise InputError(f"--set {one}: {name} is given twice")
        try:
            values[name] = json.loads(text)
        except ValueError:  # a word need not be quoted
            values[name] = text
    return values


def run(main: Callable[[list[str] | None], None], argv: list[str] | None = None) -> None:
    """Run a command's ``main`` and exit: 0 on success, 2 with one line on stderr on bad input, 128 + N on a signal.

    SIGTERM (docker stop, batch systems) and SIGHUP (a terminal that closes; unless it is ignored, as under nohup) end a
    command as Ctrl-C does: what it began is tidied up.
    """
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _end)
    try:
        with naming_extras():
            main(argv)
    except InputError as error:
        print(f"error: {as_called(' '.join(str(error).split()))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        print("interrupted", file=sys.stderr)
        sys.exit(128 + number)
    except BrokenPipeError:  # the reader of a pipe (head, less) has gone: not our failure, but nothing more to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _end(number: int, frame) -> None:
    """A signal's handler that ends the process as Ctrl-C does."""
    raise KeyboardInterrupt(number)
