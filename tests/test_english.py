"""Docstrings stand alone, and no text has a word that no native engineer uses in its sense.

Docstrings of functions begin with an imperative verb: ruff's D401 and D404 check that. Here are the openings that ruff lets
pass, in all docstrings (modules, classes, functions, attributes), and the words, in comments, texts and documents.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPENINGS = re.compile(
    r"(After|Again|Against|Among|And|Anew|Are|As|At|Because|Before|Beside|Between|But|By|For|From|How|If|In|Into|"
    r"Is|It|Nobody|None|Not|Of|On|Only|Or|Ours|Over|Per|So|Than|That|These|They|This|Those|Through|To|Told|Under|"
    r"Until|What|When|Where|Whether|Which|While|Who|Whose|With|Within|Without)\b"
)
"""A docstring that begins so continues from a name, or has no noun as its subject."""
WORDS = re.compile(r"\b([Tt]old|[Bb]eside|[Aa]new|[Nn]obody|is none|[Ss]o many|[Hh]eard of)\b")
ALLOWED: Mapping[str, Mapping[str, str]] = {
    "tests/test_english.py": {"*": "names what it refuses"},
    "experiments/scenarios/__init__.py": {'"beside"': "a scenario, which recorded results name"},
    "docs/decisions/0022-idle-slivers.md": {"[beside](../results/beside/report.md)": "the same scenario's results"},
    "tests/controller/runtime/test_programs.py": {'"nobody"': "a user of every system"},
}
"""Per file: texts in which a word is right, each with the reason; "*" is the whole file."""
FOLDERS = (
    "bridge",
    "controller",
    "deploy",
    "dockerfiles",
    "docs",
    "experiments",
    "master_memory",
    "placement",
    "stage_model",
    "tests",
)
MEASURED = "docs/results/"
"""Reports stay as they were written when their figures were measured."""
CODE = re.compile(r"`[^`\n]*`|\{[^{}\n]*\}")
"""Names of code in a text, and expressions of a formatted text, which are tokens of their own only from Python 3.12 on."""
TEXTS = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))


def test_the_docstrings_of_the_project_stand_alone() -> None:
    assert [found for name, text in sources(".py") for found in openings(name, text)] == []


def test_no_text_of_the_project_has_a_refused_word() -> None:
    code = [found for name, text in sources(".py") for found in words_of_code(name, text)]
    assert code + [found for name, text in sources(".md") for found in words(name, 1, text)] == []


def test_the_finder_names_the_docstrings_that_continue_from_a_name() -> None:
    code = '"""Parts of a line."""\nclass A:\n    """Those that wait."""\n    x = 1\n    """What is left."""\n    y = 2\n'
    assert openings("a.py", code) == ["a.py:3: opens with 'Those'", "a.py:5: opens with 'What'"]


def test_the_finder_names_words_in_comments_texts_and_documents_but_not_in_code() -> None:
    code = "told = 1  # nobody\nx = '''a\nlies beside b'''\nf'{told} `told` anew'\n"
    assert words_of_code("a.py", code) == ["a.py:1: 'nobody'", "a.py:3: 'beside'", "a.py:4: 'anew'"]
    assert words("README.md", 1, "One.\nThere is none so many.") == ["README.md:2: 'is none'", "README.md:2: 'so many'"]


def sources(suffix: str) -> Iterator[tuple[str, str]]:
    """Yield the path from the root and the text of each file of the project's own that ends so."""
    inside = (path for top in FOLDERS for path in sorted((ROOT / top).rglob(f"*{suffix}")))
    for path in (*sorted(ROOT.glob(f"*{suffix}")), *inside):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(MEASURED) and "*" not in ALLOWED.get(name, {}):
            yield name, path.read_text(encoding="utf-8")


def openings(name: str, text: str) -> list[str]:
    """Find the docstrings, of attributes too, that begin with a refused word."""
    found = []
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            match statement:
                case ast.Expr(value=ast.Constant(value=str() as said)) if first := OPENINGS.match(said.strip()):
                    found.append((statement.lineno, f"{name}:{statement.lineno}: opens with {first[0]!r}"))
    return [sentence for _, sentence in sorted(found)]


def words_of_code(name: str, text: str) -> list[str]:
    """Find refused words in the comments and texts of a module; names of things in code may have them."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type in TEXTS]
    return [found for token in tokens for found in words(name, token.start[0], token.string)]


def words(name: str, line: int, text: str) -> list[str]:
    """Find refused words in a text that begins at that line, except where the file's allowed texts have them."""
    for allowed in ALLOWED.get(name, {}):
        text = text.replace(allowed, "")
    text = CODE.sub("", text)
    return [f"{name}:{line + text[: found.start()].count(chr(10))}: {found[0]!r}" for found in WORDS.finditer(text)]
