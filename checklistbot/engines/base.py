"""What discovery hands to an engine, and what every engine file offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from checklistbot.lazy import pattern
from checklistbot.model import Deployment, Fact, Source, Unknown, WhyUnknown
from checklistbot.record import record

if TYPE_CHECKING:
    from packaging.version import Version


@record
class Word:
    """One word of a command or one value of a manifest, with the line that spells it.

    ``text`` is None where the value cannot be known statically; ``unknown`` then says why and names the variable. ``raw`` is
    the spelling in the file, with "?" for an unknown part (``--model=?``). Secrets are already ``***``. ``starts`` is for text of
    several lines that are not consecutive in the file: (offset in ``text``, line), ascending; without it line ``line + k`` holds
    the text after its k-th line break.
    """

    text: str | None
    path: str
    line: int
    raw: str = ""
    unknown: Unknown | None = None
    starts: tuple[tuple[int, int], ...] = ()

    @property
    def shown(self) -> str:
        """The text, or the spelling with "?" where it is unknown."""
        return self.text if self.text is not None else self.raw

    def line_at(self, offset: int) -> int:
        """The line of the file that holds the character at ``offset`` of ``text``."""
        if self.starts:
            before = [line for start, line in self.starts if start <= offset]
            return before[-1] if before else self.line
        return self.line + (self.text or "").count("\n", 0, offset)

    def fact(self) -> Fact:
        """A declared fact with the word's text, or an unknown one with its reason."""
        if self.text is None:
            return Fact(source=None, unknown=self.unknown or Unknown("not-static"))
        return Fact(self.text, Source("declared", self.path, self.line))


# --- unknown parts inside text ---------------------------------------------------------------------------------------
# A command is joined, quoted and split before it is a list of words. A value that nobody knows travels through that as
# private-use characters around "why:name"; ``settled`` turns the finished word into an unknown one.

#: Blanks, quotes and dollars of a name would be split, closed or expanded on the way; they travel as other private-use characters.
_HIDDEN: Final = {code: 0xE200 + code for code in range(0x80) if not chr(code).isalnum() and chr(code) not in "_.-"}
_SHOWN: Final = {hidden: code for code, hidden in _HIDDEN.items()}
OPEN: Final = "\ue0c2"
CLOSE: Final = "\ue0c3"
_MARK = pattern(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")


def mark(name: str, why: str = "not-static") -> str:
    """An unknown part called ``name`` for text that is still to be split, quoted or joined."""
    return f"{OPEN}{why}:{name[:80].translate(_HIDDEN)}{CLOSE}"


def without_marks(text: str) -> str:
    """Text of a file: a repository cannot bring marks of its own."""
    return text.replace(OPEN, "?").replace(CLOSE, "?") if OPEN in text or CLOSE in text else text


def settled(word: Word) -> Word:
    """The word as it may leave discovery: with an unknown part it is unknown, and ``raw`` shows "?" in its place."""
    found = _MARK.search(word.text) if word.text and OPEN in word.text else None
    if found is None:
        return word
    why, _, name = found[1].partition(":")
    name = name.translate(_SHOWN)
    known: WhyUnknown = why if why in ("not-rendered", "ambiguous", "not-said") else "not-static"  # type: ignore[assignment]
    return Word(None, word.path, word.line, _MARK.sub("?", word.text or ""), Unknown(known, name or None), word.starts)


@record
class Launch:
    """One command that starts one server, as one environment renders it; what every file of discovery/ yields.

    ``argv`` starts at the program (``python3``, ``vllm``, ``docker`` wrappers are already peeled off) or, where an image's
    entrypoint is the server, holds only its arguments. ``path``/``line`` is the launch token. ``name`` is the workload's name,
    ``qualifier`` what tells two launches of one workload apart (object, compose service, unit, recipe, function, loop key).
    ``gpu_count`` is per pod or node; ``nodes`` is the number of pods or nodes of one replica (LeaderWorkerSet size).
    ``role`` is a hint of the manifest (a CRD field, a label), weaker than flags. ``engine`` is set where a format names it.
    ``version`` is the engine's version where the format pins the package (``pip_install("vllm==0.11.0")``, requirements of a
    Truss, ``uv run --with``): a bare PEP 440 number. It is stronger than what an image's tag says.
    ``lost`` are flags that stand behind the command and do not reach it (a comment line cut the continuation).
    ``mounted`` gives the text of files that the command may name (ConfigMap mounts, ``--config``): path in the container → (text, path, first line).
    """

    argv: tuple[Word, ...]
    path: str
    line: int
    name: str
    environment: str = "default"
    qualifier: str | None = None
    env: Mapping[str, Word] = field(default_factory=dict)
    image: Word | None = None
    replicas: Word | None = None
    gpu: Word | None = None
    gpu_count: Word | None = None
    nodes: Word | None = None
    role: Word | None = None
    engine: str | None = None
    version: Word | None = None
    model: Word | None = None
    served_model_name: Word | None = None
    mounted: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)
    lost: tuple[Word, ...] = ()
    format: str = ""


@record
class Engine:
    """One engine, as ``engines/NAME.py`` defines it in ``ENGINE``.

    ``words`` are literal byte strings one of which stands in every file that deploys it (for the search over a repository).
    ``serves`` is true for a launch that starts this engine's server. ``deployment`` turns a launch into a deployment, or None where the launch does not start this engine's server.
    ``first_rejected_length`` and ``full_request_needs`` give tokens, as functions of the deployment's facts and version, or None
    where the facts do not tell.
    """

    name: str
    words: tuple[bytes, ...]
    serves: Callable[[Launch], bool]
    deployment: Callable[[Launch], Deployment | None]
    first_rejected_length: Callable[[Deployment], int | None]
    full_request_needs: Callable[[Deployment], int | None]


def version_of(deployment: Deployment) -> Version | None:
    """The engine version as a PEP 440 ``Version``, None where it is unknown or no version."""
    text = deployment.engine_version.text()
    return None if text is None else _version(str(text))


@lru_cache(maxsize=1_024)
def _version(text: str) -> Version | None:
    """Rules ask for the same few versions thousands of times."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return None


@lru_cache(maxsize=1_024)
def _bound(text: str) -> Version:
    from packaging.version import Version

    return Version(text)


@lru_cache(maxsize=1_024)
def _public(version: Version) -> Version:
    """The version without its local part."""
    return _bound(version.public) if version.local else version


def below(version: Version, bound: str) -> bool:
    """True if ``version`` is older than the release ``bound``.

    Development and release-candidate builds of the bound are below it, post-releases of an older release count with that
    release; a local part (+cu128) is ignored. Plain ``Version`` comparison, because ``SpecifierSet("<0.5.22")`` leaves out
    0.5.22rc0 (operations-and-attacks 4).
    """
    return _public(version) < _bound(bound)
