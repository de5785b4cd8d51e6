"""The Router of sentence-transformers, which has other modules for queries than for documents.

Reference: sentence-transformers 6.2, `Router`.
"""

import os
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links, inside
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, read_json_object, write_json

ROUTER, QUERY, DOCUMENT = "Router", "query", "document"
_MOST_MODULES = 100  # of a folder; each is a folder whose files are looked at
_FILE = "router_config.json"
_PACKAGE = "sentence_transformers."
_KEYS = KnownKeys(used=("types", "structure", "parameters"))
_PARAMETERS = KnownKeys(used=("default_route",), harmless=("allow_empty_key",), fixed={"route_mappings": ({},)})
Modules = list[tuple[str, str]]


def kind_of(name: str) -> str:
    """Returns the kind of a module from the name of its class; classes of other packages keep the whole name."""
    return name.rpartition(".")[2] if name.startswith(_PACKAGE) else name


def check_number_of_modules(number: int, file: str) -> None:
    """Raises `InputError` if a file has too many modules."""
    if number > _MOST_MODULES:
        raise InputError(f"{file}: at most {_MOST_MODULES} modules are expected. Received: {number:,}")


def read_router(folder: str) -> tuple[dict[str, Modules], str]:
    """Returns route -> kind and folder of each module, and the default route. A folder without its file has no routes.

    Raises:
        InputError: the file is damaged, has unknown settings or too many modules, or a module lies outside the folder.
    """
    file = os.path.join(folder, _FILE)
    if not os.path.isfile(file):
        return {}, DOCUMENT
    values = read_json_object(file)
    _KEYS.check(values, file)
    types, structure = (member(values, name, dict, file, {}) for name in ("types", "structure"))
    parameters = member(values, "parameters", dict, file, {})
    _PARAMETERS.check(parameters, f"{file}: parameters")
    routes: dict[str, Modules] = {}
    lists = {route: checked(names, list, f"route {route!r:.100}", file) for route, names in structure.items()}
    check_number_of_modules(sum(max(1, len(names)) for names in lists.values()), file)
    for route, names in lists.items():
        for name in names:
            checked(name, str, "each module", file)
        check_links(folder, *names)
        kinds = [kind_of(checked(types.get(name), str, f"the type of {name!r:.100}", file)) for name in names]
        routes[route] = [(kind, inside(folder, name, file)) for kind, name in zip(kinds, names, strict=True)]
    default = member(parameters, "default_route", str, file, next(iter(routes), DOCUMENT))
    if routes and default not in routes:
        raise InputError(f"{file}: default_route is {default[:100]!r}, which is none of its routes.")
    return routes, default


def write_router(folder: str, types: Mapping[str, str], routes: Mapping[str, Sequence[str]], default: str) -> None:
    """Writes the file of a Router.

    Args:
        folder: the folder of the model.
        types: folder of a module -> the name of its class.
        routes: route -> the folders of its modules.
        default: the default route.
    """
    parameters = {"default_route": default, "allow_empty_key": True, "route_mappings": {}}
    write_json(os.path.join(folder, _FILE), {"types": types, "structure": routes, "parameters": parameters})
