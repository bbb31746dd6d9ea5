"""An LLM's answer is asked for once: unchanged facts cost no call.

The key is sha256 of the prompt's bytes, the schema's id and the model's id (CONTRACTS, "Digests"). On a person's machine the answer
lies in the user's cache folder; in GitHub Actions nothing is ever written or read there, and the checklist that our earlier comment
carries serves instead (operations-and-attacks 21). What is read back, from either place, is validated like a fresh answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from checklistbot.checklist.assemble import Draft, numbered
from checklistbot.model import Checklist, Facts, Item
from checklistbot.record import record

if TYPE_CHECKING:
    from checklistbot.llm.base import Answer

#: Bytes of one entry, and how many are kept; the oldest go first.
_MAX_BYTES: Final = 600 * 1024
_MAX_ENTRIES: Final = 200
_NAME: Final = re.compile(r"[0-9a-f]{64}\.json")


@record
class Kept:
    """A validated answer of an earlier run, and the model that gave it."""

    drafts: list[Draft]
    model: str | None


class Store(Protocol):
    """Where answers are kept. Neither method raises: a cache that cannot be used is none."""

    def get(self, key: str) -> Kept | None: ...

    def put(self, key: str, answer: Answer) -> None: ...


def key(prompt: str, schema: Mapping[str, Any], model: str) -> str:
    """sha256 in hex over prompt bytes, schema id and model id, each with its length in front."""
    schema_id = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()
    digest = hashlib.sha256()
    for part in (prompt.encode("utf-8", "replace"), schema_id.encode(), model.encode("utf-8", "replace")):
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


def in_actions(environ: Mapping[str, str]) -> bool:
    """True in GitHub Actions, where no answer is kept on disk."""
    return environ.get("GITHUB_ACTIONS", "").lower() == "true"


def for_user(environ: Mapping[str, str]) -> Store | None:
    """The user's cache folder; None in GitHub Actions."""
    if in_actions(environ):
        return None
    folder = environ.get("CHECKLISTBOT_CACHE_DIR")
    if not folder:
        import platformdirs

        folder = platformdirs.user_cache_dir("checklistbot", appauthor=False)
    return Disk(Path(folder) / "llm")


# --- on disk -----------------------------------------------------------------------------------------------------------


@record
class Disk:
    """One file an answer, readable by its owner only."""

    folder: Path

    def get(self, key: str) -> Kept | None:
        from checklistbot.checklist.validate import Invalid, drafts, load_json

        try:
            entry = load_json(self._read(key))
            text, model = entry["text"], entry["model"]
            if entry["key"] != key or not isinstance(text, str) or not isinstance(model, (str, type(None))):
                return None
            return Kept(drafts(text), model)
        except (OSError, ValueError, LookupError, TypeError, Invalid):
            return None

    def _read(self, key: str) -> str:
        descriptor = os.open(self.folder / f"{key}.json", os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8")

    def put(self, key: str, answer: Answer) -> None:
        """Whole or not at all, through a file beside it."""
        entry = {"key": key, "model": answer.model, "text": answer.text}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".new", delete=False) as file:
                file.write(json.dumps(entry))
            Path(file.name).replace(self.folder / f"{key}.json")
            self._prune()
        except OSError:
            return

    def _prune(self) -> None:
        entries = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        for path in sorted(entries, key=lambda path: path.lstat().st_mtime, reverse=True)[_MAX_ENTRIES:]:
            path.unlink(missing_ok=True)


# --- in our earlier comment --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Carried:
    """The checklist that our earlier comment carries. ``fetch`` reads it, at most once: (key, checklist), or None.

    ``asked`` is the key of this run's question afterwards, for the comment that is written next.
    """

    fetch: Callable[[], tuple[str | None, Checklist | None] | None]
    facts: Facts
    asked: str | None = field(default=None, init=False)

    def get(self, key: str) -> Kept | None:
        self.asked = key
        found = self.fetch()
        if found is None or found[0] != key or found[1] is None:
            return None
        drafts = list(drafts_of(found[1], self.facts))
        return Kept(drafts, found[1].model) if drafts else None

    def put(self, key: str, answer: Answer) -> None:
        """Nothing: the comment's marker holds the finished checklist."""


def drafts_of(checklist: Checklist, facts: Facts) -> Iterable[Draft]:
    """The items of a finished checklist as drafts, to be checked and completed again. What we had added is left out."""
    names = {deployment.id: name for name, deployment in numbered(facts).items()}
    for item in checklist.items:
        name = _name(item, names)
        if name is None or item.added:
            continue
        yield Draft(
            topic=item.topic,
            title=item.title,
            steps=item.steps,
            pass_when=item.pass_when,
            commands=item.commands,
            why=item.why,
            owner=item.owner,
            severity=item.severity,
            when=item.when,
            deployments=(name,),
            automation=_typed(item.automation),
        )


def _name(item: Item, names: Mapping[str, str]) -> str | None:
    """d1 … dn of the deployment that an item's id names, without the number of a second item."""
    own = item.id.partition("/")[2]
    return names.get(own) or names.get(own.rpartition("/")[0])


def _typed(automation: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """An automation held against the vocabulary again; None where it does not fit."""
    from pydantic import TypeAdapter, ValidationError

    from checklistbot.checklist.vocabulary import Automation

    if automation is None:
        return None
    try:
        found: Any = TypeAdapter(Automation).validate_python(dict(automation))
    except ValidationError:
        return None
    typed: Mapping[str, Any] = found.model_dump(by_alias=True)
    return typed
