"""What an image's name says: the engine, whether its entrypoint is the server, and, rarely, the engine's version.

A tag is a version only in repositories that tag by the engine's own version (``knowledge/images/*.json``); elsewhere
``sglang-runtime:1.0.1`` would pass for a fixed SGLang (operations-and-attacks 4).
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Final

from checklistbot import resources
from checklistbot.lazy import pattern
from checklistbot.record import record


@record
class Image:
    """One rule of ``knowledge/images/``. ``entrypoint``: arguments alone start the server."""

    pattern: re.Pattern[str]
    engine: str
    entrypoint: bool
    tag: re.Pattern[str] | None
    variant: str | None = None


#: v0.5.9, 0.9.0.1, v0.5.5.post3-cu129-amd64, v0.5.22rc0, 3.3.4-rocm
DEFAULT_TAG: Final = r"v?(?P<version>\d+\.\d+(?:\.\d+)*(?:\.?(?:post|dev|rc|a|b)\d+)*)(?:[-_+].*)?"


@cache
def rules() -> tuple[Image, ...]:
    """All rules, in the order of the files and of their entries; the first that matches a repository counts."""
    found = []
    for path in resources.files("knowledge/images", ".json"):
        for entry in json.loads(path.read_text(encoding="utf-8"))["images"]:
            tag = entry.get("tag", DEFAULT_TAG) if entry.get("version_tag") else None
            found.append(
                Image(
                    pattern(entry["repository"]),
                    entry["engine"],
                    bool(entry.get("entrypoint")),
                    pattern(tag) if tag else None,
                    entry.get("variant"),
                )
            )
    return tuple(found)


def split(image: str) -> tuple[str, str | None]:
    """(repository, tag) of an image reference; a digest gives no tag."""
    image = re.sub(r"^(?:docker|oci|docker-daemon)://", "", image.strip()).replace("#", "/")
    if image.endswith(".sqsh"):
        # enroot's own naming of an imported image: lmsysorg+sglang+v0.5.5.post2.sqsh
        parts = image.removesuffix(".sqsh").rpartition("/")[2].split("+")
        image = "/".join(parts[:-1]) + ":" + parts[-1] if len(parts) > 1 else image
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        return name.removeprefix("docker.io/").removeprefix("index.docker.io/"), None
    return head.removeprefix("docker.io/").removeprefix("index.docker.io/"), tag


@lru_cache(maxsize=1_024)
def rule_of(image: str) -> Image | None:
    """The rule for an image, None where its repository is not known."""
    repository, _ = split(image)
    return next((rule for rule in rules() if rule.pattern.search(repository)), None)


def version_of(image: str, engine: str) -> str | None:
    """The engine version that the tag states, None where the repository does not tag by it."""
    rule = rule_of(image)
    _, tag = split(image)
    if rule is None or rule.tag is None or tag is None or rule.engine != engine:
        return None
    match = rule.tag.fullmatch(tag)
    return match["version"] if match else None
