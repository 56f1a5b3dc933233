"""Run a notebook of docs/, and keep the text and pictures of its cells.

    python docs/scripts/notebook.py docs/feedback_memory.ipynb

Jupyter is not needed: cells are plain Python. The output of a cell is the text that it prints, and the figure that its
last line names. Figures are also written beside the notebook, for the page that docs/scripts/generate.py makes of it.
"""

import argparse
import ast
import base64
import contextlib
import io
import json
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    path = parser.parse_args().notebook
    notebook = json.loads(path.read_text(encoding="utf-8"))
    run(notebook)
    for number, png in enumerate(pictures(notebook), 1):
        picture(path, number).write_bytes(base64.b64decode(png))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def run(notebook: dict) -> None:
    """Run the cells in order, in one namespace, and replace their outputs."""
    names: dict = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        *lines, last = ast.parse("".join(cell["source"])).body
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(lines, []), f"cell {number}", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
            else:
                value = exec(compile(ast.Module([last], []), f"cell {number}", "exec"), names)
        cell["execution_count"], cell["outputs"] = number, list(outputs(printed.getvalue(), value))


def outputs(printed: str, value):
    """In the format of notebooks."""
    from matplotlib.figure import Figure  # here, since generate.py runs no cells

    if printed:
        yield {"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}
    if isinstance(value, Figure):
        png = io.BytesIO()
        value.savefig(png, format="png", dpi=100, metadata={"Software": None})
        data = {"image/png": base64.b64encode(png.getvalue()).decode(), "text/plain": ["a figure"]}
        yield {"output_type": "display_data", "data": data, "metadata": {}}


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def pictures(notebook: dict) -> list[str]:
    """The pictures of all cells, in base64."""
    return [
        output["data"]["image/png"]
        for cell in code_cells(notebook)
        for output in cell["outputs"]
        if output["output_type"] == "display_data"
    ]


def picture(notebook: Path, number: int) -> Path:
    return notebook.with_name(f"{notebook.stem}_{number}.png")


def page(name: str) -> str:
    """The notebook ``docs/NAME.ipynb`` as Markdown. The text for those who cannot see a picture is the cell's "alt"."""
    path, parts, number = DOCS / f"{name}.ipynb", [], 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream":
                if source.endswith("".join(output["text"]).rstrip()):  # the comment beside the print says it
                    continue
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            else:
                number += 1
                parts.append(f"![{cell['metadata']['alt']}]({picture(path, number).name})")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
