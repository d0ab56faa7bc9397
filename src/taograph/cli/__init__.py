"""The command `tao`.

What is imported here and in the modules that define commands is light: `tao --help` loads neither LangChain
nor LangGraph. Each command imports what it needs when it runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; the entry point of ``tao``.

    Args:
        args: The arguments; those of the process when None.

    Returns:
        The exit status: 0 done, 1 error, 2 usage, 3 stopped by a limit, 130 interrupted.
    """
    if args is None:  # the process is ours
        from taograph.cli.deferring import defer

        defer()
    try:
        return _main(args)
    except KeyboardInterrupt:
        print("tao: interrupted", file=sys.stderr)
        return 130


def _main(args: Sequence[str] | None) -> int:
    import typer

    from taograph.cli.app import app_for
    from taograph.cli.errors import CommandError, debugging, sentence
    from taograph.redaction import redact

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # a test's or an embedder's own stream
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not debugging() and not sys.warnoptions:
        # Libraries' advice to programmers is noise to a person at a terminal.
        warnings.simplefilter("ignore")
        logging.lastResort = None
        logging.getLogger().addHandler(logging.NullHandler())  # else each logger says once that it has none
    try:
        code = app_for(sys.argv[1:] if args is None else args)(args, prog_name="tao", standalone_mode=False)
        sys.stdout.flush()
        if code == 130:
            print("tao: interrupted", file=sys.stderr)
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "tao")
        print(f"{command}: {redact(error.format_message())}\nTry '{command} --help'.", file=sys.stderr)
        return error.exit_code
    except typer.Abort:
        print("tao: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _discard_output()
        return 1
    except Exception as error:  # noqa: BLE001 - the last one to tell a person what happened
        if debugging():
            print(redact(traceback.format_exc()), file=sys.stderr)
        print(f"tao: {sentence(error)}", file=sys.stderr)
        for fix in error.fixes if isinstance(error, CommandError) else ():
            print(f"  - {fix}", file=sys.stderr)
        if not debugging() and not isinstance(error, CommandError | ValueError):
            print("  (TAOGRAPH_DEBUG=1 shows the traceback)", file=sys.stderr)
        return error.code if isinstance(error, CommandError) else 1


def _discard_output() -> None:
    """Let the interpreter flush into nothing: whoever read our output is gone."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
