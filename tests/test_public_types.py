"""Every function of the documented API says the types of its parameters and of its result; mypy checks its module."""

import importlib.util
import inspect
import pathlib
import re
import tomllib

BEAM = "keras_bert.serving.beam"  # Beam has an environment of its own
ROOT = pathlib.Path(__file__).resolve().parent.parent


def documented():
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    for name in re.findall(r"^\.\. auto(?:class|function):: (\S+)$", pages, re.M):
        module, _, attribute = name.rpartition(".")
        if module == BEAM and not importlib.util.find_spec("apache_beam"):
            continue
        yield getattr(importlib.import_module(module), attribute)


def functions_of(item):
    """The function, or the public methods of the class and of its bases here."""
    if not inspect.isclass(item):
        yield inspect.unwrap(item)
        return
    for base in item.__mro__:
        for name, member in vars(base).items() if base.__module__.startswith("keras_bert") else ():
            member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(member) and (not name.startswith("_") or name in ("__init__", "__call__")):
                yield inspect.unwrap(member)


def untyped(function) -> list[str]:
    signature = inspect.signature(function)
    parameters = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    missing = [one.name for one in parameters if one.annotation is one.empty]
    has_result = signature.return_annotation is not signature.empty or function.__name__ == "__init__"
    return missing + ([] if has_result else ["the result"])


def test_every_documented_function_has_types():
    def some(first: int, second, *rest: int, **options): ...

    assert untyped(some) == ["second", "options", "the result"]
    found = {function for item in documented() for function in functions_of(item)}
    assert len(found) > 250
    wrong = {f"{one.__module__}.{one.__qualname__}": untyped(one) for one in found if untyped(one)}
    assert wrong == {}


def test_the_type_checker_reads_every_module_of_the_documented_api():
    modules = {BEAM, *(inspect.unwrap(item).__module__ for item in documented())}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert {f"{module.replace('.', '/')}.py" for module in modules} == set(settings["files"])
