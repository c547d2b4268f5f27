"""The `headwater` command: what it is made of, and what becomes of errors.

Exit codes: 0 fine; 1 `verify` found problems; 2 a wrong call or a table that cannot be read; 130 interrupted; 141 the
reader of the output went away.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

import headwater
from headwater.cli import change, look, read, verify
from headwater.cli.output import console, printable, tolerate
from headwater.errors import HeadwaterError


class _ErrorsAreLines(TyperGroup):
    """Errors that Headwater raises on purpose become one line on stderr."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except HeadwaterError as error:
            if ctx.meta.get("headwater.debug"):
                console(stderr=True).print_exception()
            line = Text.assemble(("error", "bold red"), ": ", printable(str(error)))
            console(stderr=True).print(line, soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            _abandon_stdout()
            sys.stderr.write("interrupted\n")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            _abandon_stdout()
            raise typer.Exit(141) from None


def _abandon_stdout() -> None:
    """Let what is still buffered go nowhere: flushing it at exit would fail, or wait for a reader."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass


app = typer.Typer(
    name="headwater",
    cls=_ErrorsAreLines,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try it on a table that ships with it: headwater history demo:trips",
)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"headwater {headwater.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Apache Hudi tables without a JVM: describe, read, explain and verify them, undo a write."""


app.command(epilog="Example: headwater describe demo:trips")(look.describe)
app.command(epilog="Example: headwater history demo:legacy --archived")(look.history)
app.command(epilog="Example: headwater schema demo:stats --output json")(look.schema)
app.command(epilog="Example: headwater files demo:trips --partition city=sf")(look.files)
app.command(
    epilog="Example: headwater read demo:trips --filter \"city = 'sf' AND price > 5\" --columns id,price --format csv"
)(read.read)
app.command(epilog="Example: headwater explain demo:stats --filter 'id > 20'")(read.explain)
app.command(epilog="Example: headwater lookup demo:trips 4 7 --output json")(read.lookup)
app.command(epilog="Example: headwater verify demo:stats || echo damaged")(verify.verify)
app.command(epilog="Example: headwater rollback demo:orders 20261115073239382")(change.rollback)


def main() -> None:
    """Run the command."""
    tolerate(sys.stdout)
    tolerate(sys.stderr)
    app(prog_name="headwater")
