"""GitHub workflows and GitLab pipelines: ``run:`` steps and ``script:`` lines that start a server."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping

from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import run_shell
from checklistbot.discovery.tree import Tree
from checklistbot.discovery.yaml_docs import Map, Seq, dig, mapping, maps, settled, text, word, words
from checklistbot.engines.base import Launch, Word, mark
from checklistbot.lazy import pattern

_GITHUB = pattern(r"(?:^|/)\.(?:github|gitea|forgejo)/workflows/[^/]+\.ya?ml$|(?:^|/)action\.ya?ml$")
_GITLAB = pattern(r"(?:^|/)\.gitlab-ci[\w.-]*\.ya?ml$|(?:^|/)\.gitlab/[^/]+\.ya?ml$")
_MAX_COMBINATIONS = 12


def claims(path: str, body: str) -> bool:
    return _GITHUB.search(path) is not None or _GITLAB.search(path) is not None


def launches(tree: Tree, path: str, body: str) -> Iterator[Launch]:
    from checklistbot.discovery import yaml_docs

    for root in yaml_docs.documents(path, body):
        if not isinstance(root, Map):
            continue
        if _GITHUB.search(path):
            yield from _workflow(tree, path, root)
        else:
            yield from _gitlab(tree, path, root)


def _workflow(tree: Tree, path: str, root: Map) -> Iterator[Launch]:
    env = _env(root, {})
    for name, job in mapping(root.get("jobs")).items():
        if isinstance(job, Map):
            for matrix in _combinations(job):
                yield from _job(tree, path, name, job, _env(job, env), matrix)
    runs = root.get("runs")
    if isinstance(runs, Map):
        yield from _job(tree, path, text(root.get("name")) or "action", runs, env, {})


def _combinations(job: Map) -> list[dict[str, Word]]:
    """The values of a matrix; one empty combination where there is none or it is computed."""
    matrix = mapping(dig(job, "strategy", "matrix"))
    axes = {
        name: words(values)
        for name, values in matrix.items()
        if isinstance(values, Seq) and words(values) and name not in ("include", "exclude")
    }
    found = [
        dict(zip(axes, values, strict=True))
        for values in itertools.islice(itertools.product(*axes.values()), _MAX_COMBINATIONS)
    ]
    included = [{k: v for k, v in entry.items() if isinstance(v, Word)} for entry in maps(matrix.get("include"))]
    return (included if included and not axes else found) or [{}]


def _env(node: Map, before: Mapping[str, Word]) -> dict[str, Word]:
    env = dict(before)
    for name, value in mapping(node.get("env")).items():
        if isinstance(value, Word):
            env[name] = settled(_evaluated(value, env, {}))
    return env


def _job(
    tree: Tree, path: str, name: str, job: Map, env: Mapping[str, Word], matrix: Mapping[str, Word]
) -> Iterator[Launch]:
    image = word(dig(job, "container", "image")) or word(job.get("container"))
    resolved = {key: settled(_evaluated(value, env, matrix)) for key, value in env.items()}
    parts: list[Word] = []
    for step in maps(job.get("steps")):
        script = step.get("run")
        if not isinstance(script, Word) or (text(step.get("shell")) or "bash").startswith(("python", "pwsh", "cmd")):
            continue
        parts.append(_evaluated(script, {**resolved, **_env(step, resolved)}, matrix))
        own = _env(step, {})
        if own:
            exports = "".join(
                f"export {key}={_quoted(value)}\n" for key, value in own.items() if value.text is not None
            )
            parts.insert(-1, Word(exports, path, script.line))
    qualifier = "-".join([name, *(value.text or "" for value in matrix.values())])
    template = Launch((), path, job.line, name, qualifier=qualifier, env=resolved, image=image, format="workflow")
    if parts:
        yield from run_shell(template, script_of(parts), tree)


def _quoted(value: Word) -> str:
    return "'" + (value.text or "").replace("'", "'\\''") + "'"


def script_of(parts: list[Word]) -> Word:
    """The steps of a job as one script whose lines keep their numbers: a pin of one step holds for the next."""
    whole, starts = "", []
    for part in parts:
        body = (part.text or "").rstrip("\n") + "\n"
        base = len(whole)
        offset = 0
        for line in body.splitlines(keepends=True):
            starts.append((base + offset, part.line_at(offset)))
            offset += len(line)
        whole += body
    return Word(whole, parts[0].path, parts[0].line, "", None, tuple(starts))


_EXPRESSION = pattern(r"\$\{\{(.*?)\}\}", re.DOTALL)


def _evaluated(value: Word, env: Mapping[str, Word], matrix: Mapping[str, Word]) -> Word:
    """``${{ env.X }}``, ``${{ matrix.x }}``, ``${{ vars.X || 'default' }}``; everything else is unknown."""
    if value.text is None or "${{" not in value.text:
        return value

    def replaced(match: re.Match[str]) -> str:
        for part in match[1].split("||"):
            found = _operand(part.strip(), env, matrix)
            if found is not None:
                return found
        return mark("${{" + match[1].strip()[:60] + "}}")

    return dataclasses.replace(value, text=_EXPRESSION.sub(replaced, value.text), starts=())


def _operand(part: str, env: Mapping[str, Word], matrix: Mapping[str, Word]) -> str | None:
    literal = re.fullmatch(r"'((?:[^']|'')*)'|(-?\d+(?:\.\d+)?|true|false)", part)
    if literal is not None:
        return literal[1].replace("''", "'") if literal[1] is not None else literal[2]
    match = re.fullmatch(r"(env|matrix)\.([\w-]+)", part)
    if match is None:
        return None
    found = (env if match[1] == "env" else matrix).get(match[2])
    return found.text if found is not None else None


def _gitlab(tree: Tree, path: str, root: Map) -> Iterator[Launch]:
    variables = {k: settled(v) for k, v in mapping(root.get("variables")).items() if isinstance(v, Word)}
    for name, job in root.items():
        if not isinstance(job, Map) or "script" not in job:
            continue
        env = {**variables, **{k: settled(v) for k, v in mapping(job.get("variables")).items() if isinstance(v, Word)}}
        lines = [entry for key in ("before_script", "script") for entry in words(job.get(key))]
        image = word(job.get("image")) or word(dig(job, "image", "name"))
        if lines:
            template = Launch((), path, job.line, name, qualifier=name, env=env, image=image, format="workflow")
            yield from run_shell(template, script_of(lines), tree)


FORMAT = Format("pipelines", claims, launches)
