"""What all commands share: common options, options made from configurations, logging, and how an error ends a process.

The help of a command shows the required options in its usage, then what most people need, then further groups.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError, nearest
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.progress import progress, set_up_logging  # noqa: F401 (commands take them from here)
from rerank_plugin.base.settings import chosen, settings

PACKAGE = Path(__file__).parent
COMMON = "common options"
COMMAND = re.compile(r"\brerank-plugin (?=[a-z])")  # before the name of a command, in all texts of this package


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, shows the defaults that say something, and in the usage only what is required."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        says_nothing = action.default in (None, [], "") or action.default is False
        return action.help if says_nothing else super()._get_help_string(action)

    def _format_usage(self, usage, actions, groups, prefix):
        if prefix == "":  # of a command with subcommands, whose names it begins
            return super()._format_usage(usage, actions, groups, prefix)
        groups = [group for group in groups if group.required]
        either = [action for group in groups for action in group._group_actions]
        needed = [one for one in actions if one.required or not one.option_strings or one in either]
        return super()._format_usage(usage, needed, groups, prefix).rstrip("\n") + " [options]\n\n"


class Once:
    """An action of an option that has one value: given twice, either could be meant, so it is refused."""

    def __call__(self, parser, namespace, values, option_string=None):
        if option_string and self in parser.given:
            how = f"give its values after one {option_string}" if self.nargs == "+" else "give it once"
            raise argparse.ArgumentError(self, f"is given twice: {how}")
        parser.given.add(self)
        super().__call__(parser, namespace, values, option_string)


class Store(Once, argparse._StoreAction):
    """One value, or the values after one name."""


class Switch(Once, argparse.BooleanOptionalAction):
    """``--NAME`` or ``--no-NAME``."""


class HelpAll(argparse.Action):
    """``--help-all``: prints the help of all options, and ends."""

    def __call__(self, parser, namespace, values, option_string=None):
        parser._print_message(parser.full_help(), sys.stdout)
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Bad usage is one line on stderr and status 2, like any other bad input.

    ``--help`` shows the options that are in no group, and the first paragraph of the description and of the examples;
    ``--help-all`` shows everything. A command without groups of options has one help.
    """

    def __init__(self, **how):
        super().__init__(**how)
        self.given: set[argparse.Action] = set()  # the options that were read
        for name in (None, "store"):
            self.register("action", name, Store)
        hidden = dict(dest=argparse.SUPPRESS, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        self.add_argument("--help-all", action=HelpAll, nargs=0, **hidden)

    def parse_known_args(self, args=None, namespace=None):
        self.given = set()
        return super().parse_known_args(args, namespace)

    def error(self, message: str):
        unknown = re.match("unrecognized arguments: (--[a-z-]+)", message)
        near = suggestion(unknown[1], self._option_string_actions) if unknown else ""
        self.exit(2, f"error: {message}{near} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += suggestion(str(value), map(str, action.choices or ()))
            raise

    def _print_message(self, message: str, file=None) -> None:
        super()._print_message(as_called(message), file)

    def full_help(self) -> str:
        """The help of all options."""
        self._action_groups.sort(key=lambda group: group.title == COMMON)  # those of every command are last
        return super().format_help()

    def format_help(self) -> str:
        """The help of what most people need."""
        groups, texts = self._action_groups, (self.description, self.epilog)
        further = [group for group in groups if group not in (self._positionals, self._optionals)]
        if all(group.title == COMMON for group in further):
            return self.full_help()
        count = sum(action.help != argparse.SUPPRESS for group in further for action in group._group_actions)
        self._action_groups = [self._positionals, self._optionals]
        self.description, self.epilog = (text and text.partition("\n\n")[0] for text in texts)
        try:
            return f"{super().format_help()}\n{count} more options and all examples: {self.prog} --help-all\n"
        finally:
            self._action_groups, (self.description, self.epilog) = groups, texts

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


def suggestion(given: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown value: the most similar known one, if one is similar."""
    near = nearest(given, known)
    return f"; did you mean {near}?" if near else ""


def called() -> str:
    """What stands before the name of a command, as this process was called: ``python -m`` only for a module."""
    program = Path(sys.argv[0])
    if PACKAGE not in program.parents:
        return "rerank-plugin "
    return f"python -m {PACKAGE.name}" + (" " if program == PACKAGE / "__main__.py" else ".")


def as_called(text: str) -> str:
    """A text that names commands as this one was called."""
    return COMMAND.sub(called(), text)


def flag(name: str) -> str:
    """The option whose value is the attribute ``name`` of the parsed options."""
    return f"--{name.replace('_', '-')}"


def parser(prog: str, description: str, epilog: str | None = None) -> Parser:
    """An argument parser that shows defaults, keeps line breaks and has the options every command takes."""
    built = Parser(
        prog=as_called(f"rerank-plugin {prog}"), description=description, epilog=epilog, formatter_class=HelpFormatter
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
    """An option for each setting of a configuration (:mod:`rerank_plugin.base.settings`).

    Args:
        to: a parser or a group of its options.
        given_only: whether options that are not given are None, because something else decides then.
    """
    for setting, default in settings(config).values():
        how: dict = {"metavar": setting.metavar, "type": setting.type or type(default), "choices": setting.choices}
        if isinstance(default, bool):
            how = {"action": Switch}
        elif isinstance(default, tuple):
            how |= {"type": setting.type or float, "nargs": "+"}
        if not (given_only or setting.otherwise or isinstance(default, tuple)):
            how["default"] = default
        to.add_argument(flag(setting.option), help=setting.help, **how)


def configured(config: type, options: argparse.Namespace, **more):
    """The configuration by the options of its settings and by the fields ``more``; an `InputError` if it cannot be."""
    return config(**chosen(config, vars(options)), **more)


def add_first_stage_options(to: argparse.ArgumentParser, basic: bool = False) -> None:
    """Options that choose a first stage and its settings, made from the register and the configurations.

    Args:
        basic: whether the help of what most people need has the name of the first stage.
    """
    from rerank_plugin.retrieval.fusion import FusionConfig
    from rerank_plugin.retrieval.register import FIRST_STAGES

    entries, installed = FIRST_STAGES.ours(), FIRST_STAGES.installed()
    rows = [(entry.form, entry.summary) for entry in entries] + [(name, "of another package") for name in installed]
    width = max(len(name) for name, _ in rows)
    summaries = "\n".join(f"{name:<{width}}  {summary}" for name, summary in rows)
    first = to.add_argument_group("first stage", summaries)
    names = ", ".join(name for name, _ in rows)
    (to if basic else first).add_argument(
        "--first-stage", default="bm25", metavar="STAGE", help=f"source of the candidates: {names}"
    )
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
