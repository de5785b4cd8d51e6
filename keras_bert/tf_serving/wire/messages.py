"""TF Serving's messages as protobuf classes: `messages.PredictRequest`, `messages.TensorProto` and all others.

Every message of `message_fields` is an attribute under its short name. `POOL` is the `descriptor_pool` to pass to
`text_format.Parse` and similar functions. It is separate from protobuf's default pool, where these messages would
collide with TensorFlow's messages of the same names; importing TensorFlow's takes seconds.
"""

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.tf_serving.wire.message_fields import ENUMS, TENSORFLOW, TENSORFLOW_SERVING

try:
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2
except ImportError as error:
    raise InputError(f"protobuf is not installed; TF Serving's messages need it. {how_to_install('client')}") from error

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in ("double", "float", "int64", "uint64", "int32", "uint32", "bool", "string", "bytes")
}


def _add_field(message, package: str, name: str, number: int, kind: str, oneof: str | None = None) -> None:
    """Adds one field, its map entry and its oneof to a DescriptorProto."""
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind.startswith("map<"):
        key, _, value = kind.removeprefix("map<").removesuffix(">").partition(", ")
        entry = message.nested_type.add(name=name.title().replace("_", "") + "Entry")
        entry.options.map_entry = True
        _add_field(entry, package, "key", 1, key)
        _add_field(entry, package, "value", 2, value)
        # A relative name: protobuf looks inside the message first.
        field.label, field.type, field.type_name = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE, entry.name
        return
    if kind.startswith("repeated "):
        field.label, kind = _Field.LABEL_REPEATED, kind.removeprefix("repeated ")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        full_name = kind if kind.startswith(("tensorflow.", "google.")) else f"{package}.{kind}"
        field.type = _Field.TYPE_ENUM if full_name in ENUMS else _Field.TYPE_MESSAGE
        field.type_name = "." + full_name
    if oneof:
        names = [declared.name for declared in message.oneof_decl]
        if oneof not in names:
            message.oneof_decl.add(name=oneof)
        field.oneof_index = len(names) if oneof not in names else names.index(oneof)


def _file(package: str, tables: dict, dependencies: list[str]) -> descriptor_pb2.FileDescriptorProto:
    """Returns the description of one package: its messages, nested messages and enums."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"keras_bert/{package}.proto", package=package, syntax="proto3", dependency=dependencies
    )
    messages = {}
    # Outer messages come before their nested messages.
    for name in sorted(tables, key=lambda name: name.count(".")):
        outer, _, inner = name.rpartition(".")
        messages[name] = messages[outer].nested_type.add(name=inner) if outer else file.message_type.add(name=inner)
        for field, definition in tables[name].items():
            _add_field(messages[name], package, field, *definition)
    for full_name, values in ENUMS.items():
        outer, _, inner = full_name.rpartition(".")
        place = file if outer == package else messages.get(outer.removeprefix(f"{package}."))
        if place is not None:
            enum = place.enum_type.add(name=inner)
            for name, number in values.items():
                enum.value.add(name=name, number=number)
    return file


def _make_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for module in (any_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    names = [any_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name]
    for package, tables in (
        ("tensorflow.error", {}),
        ("tensorflow", TENSORFLOW),
        ("tensorflow.serving", TENSORFLOW_SERVING),
    ):
        file = _file(package, tables, list(names))
        pool.Add(file)
        names.append(file.name)
    return pool


POOL = _make_pool()
_FULL_NAMES = {
    **{name: f"tensorflow.{name}" for name in TENSORFLOW},
    **{name: f"tensorflow.serving.{name}" for name in TENSORFLOW_SERVING},
    "Any": "google.protobuf.Any",
    "Int64Value": "google.protobuf.Int64Value",
}
# One class per message: two classes of one message would not accept each other's objects.
_CLASSES = {
    name: message_factory.GetMessageClass(POOL.FindMessageTypeByName(full_name))
    for name, full_name in _FULL_NAMES.items()
}


def __getattr__(name: str):
    if name not in _CLASSES:
        raise AttributeError(f"TF Serving's API has no message {name!r} here; see message_fields.py")
    return _CLASSES[name]


def __dir__():
    return sorted([*globals(), *_CLASSES])
