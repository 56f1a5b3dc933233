import sys

from fairseq_plugins.startup.late_imports import late


def test_a_module_is_imported_when_a_function_of_it_is_called():
    for name in [name for name in sys.modules if name.partition(".")[0] == "wsgiref"]:
        del sys.modules[name]  # a package that nothing here uses
    with late("wsgiref", "wsgiref.util"):
        from wsgiref import util
        from wsgiref.util import guess_scheme
    assert "wsgiref" not in sys.modules and "wsgiref.util" not in sys.modules
    assert guess_scheme({"HTTPS": "on"}) == util.guess_scheme({"HTTPS": "1"}) == "https"
    assert sys.modules["wsgiref.util"].guess_scheme is not guess_scheme


def test_a_module_that_is_imported_stays_itself():
    with late("json"):
        from json import dumps
    assert dumps is sys.modules["json"].dumps
