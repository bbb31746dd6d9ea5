"""One file a format; each finds the launch commands of its format. The registry is the folder."""

# C2 -> C1 (delete when agreed). What my formats need of the registry, beside name, claims(path, text), launches(tree, path, text):
# 1. Format.anchors: tuple of file-name globs that are candidates whatever they hold ("kustomization.y*ml", "Chart.yaml",
#    "helmfile*.y*ml", "*.j2"): a kustomization or an Application holds no engine word itself.
# 2. Format.consumes(tree, path, text) -> Iterable[str]: files that this one renders (resources and patches of an overlay, templates and
#    values of a chart, defaults of a role). The driver runs consumes of all candidates first and hands a consumed file to no format
#    except the consumer. Default: nothing.
# 3. A driver function I can call on text that I rendered: `launches_in(tree, path, text) -> list[Launch]`: all formats that claim
#    (path, text), path being virtual (role/templates/llm.service for llm.service.j2). I put unknown values into the text as marks of
#    two private-use characters and swap the marks for Word(text=None, unknown=…) and the lines for the real ones in
#    discovery/rendered.py, so formats need not know; they only must carry words through unharmed (quoting, YAML, shell splitting).
# 4. launches.py: `peel(words) -> …` for an argv that is already split (Python lists, Terraform command, Nix cmd), and
#    `shell(text, path, line, env) -> list[Launch]` for a command string; dedupe of N equal servers (replicas) in one place.
# 5. engines: Launch.version (new field, stronger than the image tag) and Launch.engine with argv of flags only (from keyword arguments of
#    LLM(), sgl.Engine(): names with dashes, True = bare switch).
