"""The command line: which commands there are, and how errors leave the program. Each command is a file in ``commands/``.

Nothing heavy is imported here: a command's module is loaded when it is called, and ``--version`` needs no CLI library at all.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

#: Command → its line in ``--help``; a test holds it against the folder and against each command's own help.
COMMANDS: Final[dict[str, str]] = {
    "facts": "What a repository, a start-up log or a live server says about its deployments.",
    "check": "Run the deterministic checks on a repository's deployments.",
    "review": "Compare two revisions: facts, checks, checklist, CI script, comment.",
    "prompt": "Print the filled prompt, ready to paste into a chat.",
    "draft": "Write the pre-deploy checklist, by an LLM or the built-in drafter.",
    "script": "Render a CI script from a checklist or a report.",
    "publish": "Post the comment of an earlier review to its pull request.",
    "init": "Write a commented .checklistbot.yml and the GitHub workflow.",
    "probe": "Send canaries and limit-length prompts to a live endpoint, and judge what the answers say.",
    "snapshot": "Ask live workers and write a dated facts file for --observed.",
    "triage": "Run-time logs: which answers may have carried foreign text, and what to do now.",
    "simulate": "Run a paged-KV LLM server with switchable faults, to test gateways and probes.",
    "demo": "Replay the incident on this machine, without a GPU.",
    "explain": "Explain a rule or an advisory, offline.",
    "schema": "Print one of the JSON Schemas.",
    "completion": "Print the completion script for bash, zsh or fish.",
}
#: Commands that no person calls.
HIDDEN: Final = ("action", "action_publish")

_ABOUT: Final = """\
The gate in front of a self-hosted LLM: finds what a repository deploys, compares the context length with the
KV pool that the engine really has, knows which engine versions leak, and says so before the deploy."""
_EXAMPLE: Final = """\
Example:
  checklistbot check .                  what would block a deploy of this tree
  checklistbot facts --log prefill.log  what a start-up log says
  checklistbot review --base main --head HEAD"""


def top_help() -> str:
    """What ``checklistbot --help`` prints; made without the CLI library, so that it is there at once."""
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(_beside(name, line, width) for name, line in COMMANDS.items())
    options = "  --version   Show the version and exit.\n  -h, --help  Show this message and exit."
    from checklistbot.report.columns import wrapped

    about = "\n".join(wrapped(_ABOUT))
    usage = "Usage: checklistbot [OPTIONS] COMMAND [ARGS]..."
    return f"{usage}\n\n{about}\n\nOptions:\n{options}\n\nCommands:\n{commands}\n\n{_EXAMPLE}\n"


def _beside(name: str, text: str, left: int) -> str:
    """The name, and beside it the text in as many lines as it needs."""
    from checklistbot.report.columns import wrapped

    lines = "\n".join(wrapped(text, " " * (left + 2)))
    return f"  {name:{left}}{lines.lstrip()}"


def build() -> click.Group:
    """The group with its lazily loaded commands."""
    import importlib

    import click

    class Lazy(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
                return None
            command: click.Command = importlib.import_module(f"checklistbot.commands.{cmd_name}").command
            return command

        def get_help(self, ctx: click.Context) -> str:
            return top_help().rstrip("\n")

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
                import difflib

                close = difflib.get_close_matches(args[0], COMMANDS, 1)
                hint = f"; did you mean {close[0]!r}?" if close else "; see checklistbot --help"
                raise click.UsageError(f"there is no such command{hint}")
            return super().resolve_command(ctx, args)

    @click.group(
        cls=Lazy,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    @click.version_option(_version(), "--version", message="checklistbot %(version)s")
    def group() -> None:
        pass

    return group


def _version() -> str:
    from checklistbot import __version__

    return __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; every error is one line on standard error (CONTRACTS, "Exit codes")."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _utf8()
    if arguments in (["--version"], ["--help"], ["-h"], []):
        sys.stdout.write(f"checklistbot {_version()}\n" if arguments == ["--version"] else top_help())
        return 0 if arguments else 2
    import gc

    import click

    # Imports and parsed files make many objects and little garbage: the collector would look through them fifty times before
    # `facts` prints its first line, a twentieth of its time.
    gc.set_threshold(20_000)
    try:
        code = build().main(arguments, prog_name="checklistbot", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        return _fail(_one_line(error), 2)
    except click.Abort:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader went away (`| head`): nothing is wrong, and Python must not complain when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except MemoryError:
        return _fail("out of memory; name a smaller PATH", 3)
    except Exception as error:
        return _failed(error)


def _utf8() -> None:
    """Output is UTF-8 with replacement, whatever the machine's locale says."""
    import io

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def _failed(error: Exception) -> int:
    """Our own errors say what is wrong; anything else is a fault of ours. The words are loaded here: ``--help`` needs none."""
    from checklistbot.model import ChecklistbotError

    if isinstance(error, ChecklistbotError):
        return _fail(str(error), error.exit_code)
    return _fail(_internal(error), 3)


def _fail(message: str, code: int) -> int:
    from checklistbot.encode import redact, terminal

    print(f"checklistbot: {redact(terminal(message))}", file=sys.stderr)
    return code


def _one_line(error: click.ClickException) -> str:
    import click

    message = error.format_message().replace("\n", " ")
    context = getattr(error, "ctx", None)
    if isinstance(error, click.UsageError) and context is not None:
        message = f"{message.rstrip('.')} (see '{context.command_path} --help')"
    return message


def _internal(error: Exception) -> str:
    """Where in our own code it broke; never the data. Python's traceback stays away from users."""
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if "checklistbot" in f.filename]
    frame = frames[-1] if frames else None
    where = f" at {'/'.join(frame.filename.replace(os.sep, '/').split('/')[-2:])}:{frame.lineno}" if frame else ""
    if os.environ.get("CHECKLISTBOT_TRACEBACK") == "1":
        traceback.print_exception(error)
    return f"internal error ({type(error).__name__}{where}); please report it with the command you gave"
