"""What all commands share: common options, logging, progress, and how an error ends the process."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.progress import progress, set_up_logging  # noqa: F401 (commands take them from here)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, and shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False, []) else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Bad usage is one line on stderr and status 2, like any other bad input."""

    def error(self, message: str):
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def parser(prog: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """An argument parser that shows defaults, keeps line breaks and has the options every command takes."""

    built = Parser(
        prog=f"python -m rerank_plugin.{prog}", description=description, epilog=epilog, formatter_class=HelpFormatter
    )
    add_common_options(built)
    return built


def add_common_options(to: argparse.ArgumentParser) -> None:
    common = to.add_argument_group("common options")
    common.add_argument("--seed", type=int, default=42, help="seed of everything random")
    common.add_argument("--verbose", action="store_true", help="log details to stderr")


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
        _add_settings(to.add_argument_group(f"settings of {forms}"), config)
    fusion = to.add_argument_group("fusion of first stages")
    fusable = ", ".join(entry.form for entry in entries if entry.fusable)
    fusion.add_argument(
        "--fuse",
        action="append",
        default=[],
        metavar="STAGE",
        help=f"fuse --first-stage with this one ({fusable}); may be repeated",
    )
    _add_settings(fusion, FusionConfig)


def _add_settings(to, config: type) -> None:
    """An option for each field of a configuration that is a setting."""
    from rerank_plugin.retrieval.register import settings

    for setting, default in settings(config).values():
        how: dict = {"type": type(default), "default": None if setting.otherwise else default}
        if isinstance(default, tuple):
            how = {"type": float, "nargs": "+"}
        flag = f"--{setting.option.replace('_', '-')}"
        to.add_argument(flag, metavar=setting.metavar, help=setting.help, **how)


def first_stage_config(options: argparse.Namespace):
    """The configuration of a command's first stage (:class:`rerank_plugin.retrieval.register.FirstStageConfig`).

    Raises:
        InputError: an unknown stage, or options that none can have.
    """
    from rerank_plugin.retrieval.fusion import FusionConfig
    from rerank_plugin.retrieval.register import chosen, configure, entry_of

    values = vars(options)
    if not options.fuse:
        if options.fusion_weight:
            raise InputError("--fusion-weight is for several stages: name the others with --fuse")
        return configure(options.first_stage, values)
    names = [options.first_stage, *options.fuse]
    unranked = [name for name in names if not entry_of(name).fusable]
    if unranked:
        raise InputError(f"--fuse takes searches: {', '.join(unranked)} ranks nothing that could be fused")
    return FusionConfig(tuple(configure(name, values) for name in names), **chosen(FusionConfig, values))


def run(main: Callable[[list[str] | None], None], argv: list[str] | None = None) -> None:
    """Run a command's ``main`` and exit: 0 on success, 2 with one line on stderr on bad input, 128 + N on a signal.

    SIGTERM (docker stop, batch systems) and SIGHUP (a terminal that closes; unless it is ignored, as under nohup) end a
    command as Ctrl-C does: what it began is tidied up.
    """
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _end)
    try:
        main(argv)
    except InputError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
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
