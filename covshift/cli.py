"""The command `covshift`: parse, call, print. Everything else is imported when it is asked for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]

EXPERIMENTS = ("toy", "benchmark", "panel", "images", "theory")
BAD_INPUT, INTERRUPTED = 2, 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}\n")


def count(text: str) -> int:
    """A number of things, at least one."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; give 1 or more") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few; give 1 or more")
    return number


def share(text: str) -> float:
    """A number in (0, 1]."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; give one in (0, 1]") from None
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not in (0, 1]")
    return number


def build_parser() -> Parser:
    """All commands and their options."""
    parser = Parser(prog="covshift", description="Learning under covariate shift: commands for data and experiments.")
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", parser_class=Parser, metavar="COMMAND")

    demo = commands.add_parser("demo", help="the paper's toy: two figures and a small table, in seconds")
    demo.add_argument("--out", default="covshift-demo", help="folder for the figures (default: %(default)s)")

    run = commands.add_parser("reproduce", help="an experiment of the paper, or the panel: raw rows, then the report")
    run.add_argument("experiment", choices=EXPERIMENTS)
    run.add_argument("--trials", type=count, help="seeds 0..N-1; default: the experiment's own number")
    run.add_argument("--methods", nargs="+", metavar="NAME", help="names as the tables print them; default: all")
    run.add_argument("--datasets", nargs="+", metavar="NAME", help="default: all of the experiment")
    run.add_argument("--jobs", type=count, help="processes; default: one a core")
    run.add_argument("--device", help="images: cpu, cuda, ...; default: what there is")
    run.add_argument("--scale", type=share, help="images: share of the data, for a machine without an accelerator")
    run.add_argument("--angles", choices=("fresh", "fixed"), help="images: a new angle each epoch, or one for good")
    run.add_argument("--out", default="covshift-results", help="rows go to OUT/EXPERIMENT (default: %(default)s)")
    existing = run.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue existing rows; --trials may grow")
    existing.add_argument("--overwrite", action="store_true", help="replace existing rows")

    report = commands.add_parser("report", help="tables and figures from rows")
    report.add_argument("folder", metavar="DIR", help="a folder with rows.csv, or a folder of such folders")
    report.add_argument("--into", metavar="PAGE", help="fill the tables of a Markdown page (<!-- table NAME -->)")

    data = commands.add_parser("data", help="the data files: list, fetch, verify")
    data.add_argument("action", choices=("list", "fetch", "verify"))
    data.add_argument("files", nargs="*", help="files or folders of the list; default: all")
    for command in (demo, run, report, data):
        command.add_argument("--json", action="store_true", help="print JSON for machines")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 2 for bad input (one sentence), 1 for files that fail, 130 after Ctrl-C."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.version:
        from covshift import __version__

        print(f"covshift {__version__}")
        return 0
    if options.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    from covshift.experiments import commands

    try:
        code, answer = getattr(commands, options.command)(options)
        if options.json:
            print(json.dumps(answer, indent=2))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(
            f"\ncovshift {options.command}: stopped; what is written stays, rows go on with --resume", file=sys.stderr
        )
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as with `| head`; Python must not try to flush to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError, MemoryError) as problem:
        notes = getattr(problem, "__notes__", [])
        sentence = " ".join(" ".join([str(problem) or type(problem).__name__, *notes]).split())
        print(f"covshift {options.command}: {sentence}", file=sys.stderr)
        return BAD_INPUT
