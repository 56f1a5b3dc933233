"""The recipes print the pages of commands beside them; a dry run checks every command and runs none."""

import pytest
from commands_files import RECIPES, ROOT, commands_of, dry_run, page, page_of


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(ROOT / "recipes")))
def test_the_page_beside_a_recipe_is_its_dry_run(recipe, venv, tmp_path):
    pytest.importorskip("gymnasium")
    out, written = tmp_path / "out", tmp_path / "commands"
    done = dry_run(recipe, out, "--commands", written, VENV=str(venv))
    assert commands_of(done, written)
    assert not out.exists()
    place = recipe.relative_to(ROOT)
    renew = f"run: python tests/recipes/commands_files.py {place}"
    assert page_of(recipe).exists(), renew
    assert page_of(recipe).read_text() == page(recipe, out, done.stdout), renew


def test_no_page_is_left_without_a_recipe():
    assert {*(ROOT / "recipes").rglob("*.commands")} == {page_of(recipe) for recipe in RECIPES}


def test_pages_have_no_path_of_a_machine():
    for recipe in RECIPES:
        assert str(ROOT) not in page_of(recipe).read_text() and "/tmp" not in page_of(recipe).read_text()
