"""Shared by all commands: common options, options made from configurations, logging, and exit statuses.

The help of a command shows the required options in its usage, then the most common options, then further groups.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rerank_plugin.base.errors import FAULT, InputError, describe_error, nearest
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.settings import SHARED, Setting, chosen_values, settings
from rerank_plugin.base.terminal import drop_output, progress, set_up_logging, shown, standard_output  # noqa: F401 (commands take them from here)
from rerank_plugin.files.text_files import refuse_rereading_pipes

if TYPE_CHECKING:
    from rerank_plugin.retrieval.register import FirstStageConfig

T = TypeVar("T")
log = logging.getLogger(__name__)

PACKAGE = Path(__file__).parent
COMMON = "common options"
COMMAND = re.compile(r"\brerank-plugin (?=[a-z])")  # precedes a command's name, in all texts of this package


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, hides empty defaults, and shows only required options in the usage."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_empty = action.default in (None, [], "") or action.default is False
        return action.help if is_empty else super()._get_help_string(action)

    def _format_usage(
        self, usage: str | None, actions: Iterable[Any], groups: Iterable[Any], prefix: str | None
    ) -> str:
        if prefix == "":  # the common start of the subcommands' usages
            return super()._format_usage(usage, actions, groups, prefix)
        groups = [group for group in groups if group.required]
        of_groups = [action for group in groups for action in group._group_actions]
        required = [action for action in actions if action.required or not action.option_strings or action in of_groups]
        return super()._format_usage(usage, required, groups, prefix).rstrip("\n") + " [options]\n\n"


class NotRepeatable(argparse.Action):
    """An action that refuses a repeated option: it is unclear which value is meant."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if option_string and self in parser.parsed:
            cure = f"give its values after one {option_string}" if self.nargs == "+" else "give it once"
            raise argparse.ArgumentError(self, f"is given twice: {cure}")
        parser.parsed.add(self)
        super().__call__(parser, namespace, values, option_string)


class StoreOnce(NotRepeatable, argparse._StoreAction):
    """One value, or the values after one name."""


class SwitchOnce(NotRepeatable, argparse.BooleanOptionalAction):
    """``--NAME`` or ``--no-NAME``."""


class HelpAll(argparse.Action):
    """``--help-all``: prints the help of all options and exits."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        parser._print_message(parser.full_help(), sys.stdout)
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Invalid usage prints one line on stderr and exits with status 2, like any other invalid input.

    ``--help`` shows the options outside groups, and the first paragraphs of the description and of the examples;
    ``--help-all`` shows everything. A command without groups of options has only ``--help``.
    """

    def __init__(self, **arguments: Any):
        super().__init__(**arguments)
        self.parsed: set[argparse.Action] = set()  # the options that were read
        for name in (None, "store"):
            self.register("action", name, StoreOnce)
        hidden: dict[str, Any] = dict(dest=argparse.SUPPRESS, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        self.add_argument("--help-all", action=HelpAll, nargs=0, **hidden)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.parsed = set()
        return super().parse_known_args(self._texts_joined(sys.argv[1:] if args is None else args), namespace)

    def _texts_joined(self, args: Sequence[str]) -> list[str]:
        """The arguments; a text that begins with a hyphen, as in ``--query -omics``, is joined to its option.

        argparse would take it for an option of its own, unless it holds a space.
        """
        joined: list[str] = []
        for argument in args:
            option = self._option_string_actions.get(joined[-1]) if joined else None
            stores_text = isinstance(option, StoreOnce) and option.nargs is option.type is option.choices is None
            if stores_text and argument.startswith("-") and argument != "--" and not self._is_option(argument):
                joined[-1] = f"{joined[-1]}={argument}"
            else:
                joined.append(argument)
        return joined

    def _is_option(self, argument: str) -> bool:
        """Whether an argument names an option, which may be abbreviated."""
        name = argument.partition("=")[0]
        known = self._option_string_actions
        return name in known or name.startswith("--") and any(option.startswith(name) for option in known)

    def error(self, message: str) -> NoReturn:
        unknown = re.match("unrecognized arguments: (--[a-z-]+)", message)
        near = suggestion(unknown[1], self._option_string_actions) if unknown else ""
        self.exit(2, f"error: {message}{near} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += suggestion(str(value), map(str, action.choices or ()))
            raise

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(shown(with_program_prefix(message), file or sys.stderr))

    def full_help(self) -> str:
        """The help of all options."""
        self._action_groups.sort(key=lambda group: group.title == COMMON)  # the common options are last
        return super().format_help()

    def format_help(self) -> str:
        """The help of the most common options."""
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
        """Refuse numbers below 1 as values of the named options; options that are not given may be None."""
        for name in names:
            value = getattr(options, name)
            if value is not None and (min(value) if isinstance(value, list) else value) < 1:
                self.error(f"{flag(name)} must be at least 1")

    def subcommand(self, subparsers: Any, name: str, help: str, description: str, example: str) -> Parser:
        """The parser of a subcommand, with the options every command takes."""
        texts = {"help": help, "description": description, "epilog": example}
        subparser = subparsers.add_parser(name, formatter_class=HelpFormatter, **texts)
        add_common_options(subparser)
        return subparser


def suggestion(value: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown value: the most similar known value, if there is one."""
    near = nearest(value, known)
    return f"; did you mean {near}?" if near else ""


def program_prefix() -> str:
    """The text before a command's name, as this process was called: ``python -m`` only if a module was run."""
    program = Path(sys.argv[0])
    if PACKAGE not in program.parents:
        return "rerank-plugin "
    return f"python -m {PACKAGE.name}" + (" " if program == PACKAGE / "__main__.py" else ".")


def with_program_prefix(text: str) -> str:
    """The text with its commands written as this process was called."""
    return COMMAND.sub(program_prefix(), text)


def flag(name: str) -> str:
    """The command-line option of the attribute ``name`` of the parsed options."""
    return f"--{name.replace('_', '-')}"


def parser(prog: str, description: str, epilog: str | None = None) -> Parser:
    """An argument parser that shows defaults, keeps line breaks and has the options every command takes."""
    command_parser = Parser(
        prog=with_program_prefix(f"rerank-plugin {prog}"),
        description=description,
        epilog=epilog,
        formatter_class=HelpFormatter,
    )
    add_common_options(command_parser)
    return command_parser


def add_common_options(to: argparse.ArgumentParser) -> None:
    common = to.add_argument_group(COMMON)
    common.add_argument("--seed", type=int, default=42, help="random seed")
    common.add_argument("--verbose", action="store_true", help="log details to stderr")


def parse(command_parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Parse a command line and set up logging."""
    options = command_parser.parse_args(argv)
    refuse_rereading_pipes()
    set_up_logging(options.verbose)
    return options


def add_settings(to: Any, config: type, given_only: bool = False) -> None:
    """Add an option for each setting of a configuration (:mod:`rerank_plugin.base.settings`).

    Args:
        to: a parser or a group of its options.
        given_only: whether options that are not given are None, for commands that take the defaults from elsewhere.
    """
    for setting, default in settings(config).values():
        if setting.help == SHARED:
            continue
        kind = bounded(setting, setting.type or type(default))
        arguments: dict[str, Any] = {"metavar": setting.metavar, "type": kind, "choices": setting.choices}
        if isinstance(default, bool):
            arguments = {"action": SwitchOnce}
        elif isinstance(default, tuple):
            arguments |= {"type": setting.type or float, "nargs": "+"}
        if not (given_only or isinstance(default, tuple)):
            arguments["default"] = default
        to.add_argument(flag(setting.option), help=setting.help, **arguments)


def bounded(setting: Setting, kind: Any) -> Any:
    """The type of an option, which refuses values that have a `Setting.fault`."""

    def parsed(text: str) -> Any:
        if fault := setting.fault(value := kind(text)):
            raise argparse.ArgumentTypeError(fault)
        return value

    parsed.__name__ = kind.__name__  # argparse names it
    return parsed if setting.bounds else kind


def add_places(to: Any, work: str, with_settings: bool = True) -> None:
    """Add an option for each kind of location that may do a command's work (:mod:`rerank_plugin.indexes.locations`).

    Args:
        work: what is done there, for the help.
        with_settings: whether to add its settings, too.
    """
    from rerank_plugin.indexes.locations import OPENERS

    for opener in OPENERS.built_in():
        to.add_argument(flag(opener.option), metavar="ADDRESS", help=f"{work}: {opener.addresses}")
        if with_settings:
            add_settings(to, opener.location())


def location_of(options: argparse.Namespace) -> Any:
    """The location that the options name, None without one; an `InputError` if its settings are invalid."""
    from rerank_plugin.indexes.locations import OPENERS

    for opener in OPENERS.built_in():
        if address := getattr(options, opener.option, None):
            return configured(opener.location(), options, address=address)
    return None


def configured(config: type[T], options: argparse.Namespace, **more: Any) -> T:
    """The configuration with the values of its options and of the fields ``more``.

    Raises:
        InputError: the values are invalid.
    """
    return config(**chosen_values(config, vars(options)), **more)


def given_settings(options: argparse.Namespace, *configs: type) -> dict[str, Any]:
    """The values of the configurations' settings that the options give, by option name."""
    names = {setting.option for config in configs for setting, _ in settings(config).values() if setting.help != SHARED}
    return {name: value for name in sorted(names) if (value := getattr(options, name)) is not None}


def add_first_stage_options(to: argparse.ArgumentParser, basic: bool = False) -> None:
    """Add the options of first stages and their settings, made from the register and the configurations.

    Args:
        basic: whether ``--help`` shows ``--first-stage``, not only ``--help-all``.
    """
    from rerank_plugin.retrieval.fusion import FusionConfig
    from rerank_plugin.retrieval.register import FIRST_STAGES

    entries, installed = FIRST_STAGES.built_in(), FIRST_STAGES.installed()
    rows = [(entry.form, entry.summary) for entry in entries] + [(name, "of another package") for name in installed]
    width = max(len(name) for name, _ in rows)
    summaries = "\n".join(f"{name:<{width}}  {summary}" for name, summary in rows)
    group = to.add_argument_group("first stage", summaries)
    names = ", ".join(name for name, _ in rows)
    (to if basic else group).add_argument(
        "--first-stage", default="bm25", metavar="STAGE", help=f"source of the candidates: {names}"
    )
    for config in dict.fromkeys(entry.config for entry in entries):
        forms = ", ".join(entry.form for entry in entries if entry.config is config)
        add_settings(to.add_argument_group(f"settings of {forms}"), config)
    fusion = to.add_argument_group("fusion of first stages")
    fusable = ", ".join(entry.form for entry in entries if entry.fusable)
    help = f"fuse --first-stage with this first stage ({fusable}); may be repeated"
    fusion.add_argument("--fuse", action="append", default=[], metavar="STAGE", help=help)
    add_settings(fusion, FusionConfig)


def first_stage_config(options: argparse.Namespace) -> FirstStageConfig:
    """The configuration of a command's first stage.

    Raises:
        InputError: an unknown first stage, or invalid options.
    """
    from rerank_plugin.retrieval.fusion import FusionConfig
    from rerank_plugin.retrieval.register import configure, entry_of

    values = vars(options)
    if not options.fuse:
        if options.fusion_weight:
            raise InputError("--fusion-weight is for several first stages: name the others with --fuse")
        return configure(options.first_stage, values)
    names = [options.first_stage, *options.fuse]
    unranked = [name for name in names if not entry_of(name).fusable]
    if unranked:
        raise InputError(f"--fuse takes searches, but {', '.join(unranked)} ranks no documents: use bm25 or another")
    return configured(FusionConfig, options, stages=tuple(configure(name, values) for name in names))


def named_values(assignments: Sequence[str]) -> dict[str, Any]:
    """The values of ``--set NAME=VALUE``, parsed as JSON, or plain text where that fails.

    Raises:
        InputError: an argument is not NAME=VALUE, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise InputError(f"--set {assignment}: expected NAME=VALUE")
        if name in values:
            raise InputError(f"--set {assignment}: {name} is given twice")
        try:
            values[name] = json.loads(text)
        except (ValueError, RecursionError):  # a word need not be quoted
            values[name] = text
    return values


def run(main: Callable[[list[str] | None], None], argv: list[str] | None = None) -> None:
    """Run a command's ``main`` and exit: 0 on success, 2 with one line on stderr on failure, 128 + N on signal N.

    SIGTERM (docker stop, batch systems) and SIGHUP (a closed terminal) end a command as Ctrl-C does, with its clean-up.
    """
    with standard_output(), _Signals() as signals:
        try:
            with naming_extras():
                status = _status(main, argv)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of the pipe (head, less) has exited: no error message
            drop_output()
            status = 1
        except (Exception, KeyboardInterrupt) as error:
            signals.dropped = True
            # Some libraries raise another exception, as an ImportError, for the KeyboardInterrupt of a signal.
            if signals.number or isinstance(error, KeyboardInterrupt):
                _print_error("interrupted")
                status = 128 + (signals.number or signal.SIGINT)
            else:
                log.debug("", exc_info=error)
                line = describe_error(error)
                more = "; --verbose shows the traceback" if line.startswith(FAULT) else ""
                _print_error(f"error: {with_program_prefix(line)}{more}")
                status = 2
            _flush_or_drop()
    if status:
        sys.exit(status)


def _status(main: Callable[[list[str] | None], None], argv: list[str] | None) -> Any:
    """The exit status of a command that did not fail."""
    try:
        main(argv)
    except SystemExit as stopped:
        return stopped.code
    return 0


def _print_error(line: str) -> None:
    """Print a line to stderr, if that is open."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(shown(line, sys.stderr), file=sys.stderr, flush=True)


def _flush_or_drop() -> None:
    """Write what a failed command has printed, if it can be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        drop_output()


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLEANING_SECONDS = 3.0  # after a signal, for which further signals do not interrupt the clean-up


class _Signals:
    """Within a ``with`` block, signals that end a command raise a KeyboardInterrupt, unless they are ignored (nohup).

    A storm of signals counts as one: the others are dropped while the command cleans up. After the block a signal ends
    the process at once if it did so before.

    Attributes:
        number: of the last signal; 0 before any.
        dropped: whether further signals are dropped for good.
    """

    def __init__(self) -> None:
        self.number, self.dropped, self.last = 0, False, -math.inf

    def __enter__(self) -> _Signals:
        self.before = {number: handler for number in ENDING if (handler := signal.getsignal(number)) != signal.SIG_IGN}
        for number in self.before:
            signal.signal(number, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, _exit if handler == signal.SIG_DFL else handler)

    def _raise(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if not self.dropped and now - self.last > CLEANING_SECONDS:
            self.number, self.last = number, now
            raise KeyboardInterrupt(number)


def _exit(number: int, frame: Any) -> NoReturn:
    """A signal handler that ends the process while Python exits, with the status of a signal."""
    os._exit(128 + number)
