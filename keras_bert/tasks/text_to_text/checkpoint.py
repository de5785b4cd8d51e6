"""How a `TextToText` starts from a checkpoint, and its own folders: an `EncoderDecoderModel` of transformers with two
BERTs of the same shape.

Reference: huggingface/transformers 5.23, `models/encoder_decoder/` and `BertLMHeadModel` with `add_cross_attention`.
"""

import json
import os
import reprlib
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.hugging_face import SAFETENSORS_FILE, named_as_ours, read_weights
from keras_bert.checkpoints.hugging_face_config import (
    CONFIG_FILE,
    GENERATION,
    HARMLESS,
    REFUSED,
    config_from,
    config_values,
    fixed_values,
)
from keras_bert.checkpoints.hugging_face_tokenizer import read_tokenizer, write_tokenizer
from keras_bert.checkpoints.name_table import NameTable, to_theirs
from keras_bert.checkpoints.safetensors_file import write_safetensors
from keras_bert.checkpoints.same_family import check_same_family
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object
from keras_bert.registry import families
from keras_bert.tokenization.tokenizer import TokenTable

_GENERATION_FILE = "generation_config.json"
_OF_DECODER = {"is_decoder": True, "add_cross_attention": True}
# Where a text begins and ends.
_TOKENS = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
_KEYS = KnownKeys(
    used=("model_type", "encoder", "decoder", *_TOKENS),
    harmless=("architectures", "id2label", "vocab_size", "tie_word_embeddings", *HARMLESS),
    fixed=fixed_values() | {"is_encoder_decoder": (True,)},
    refused=REFUSED,
)
_GENERATION_KEYS = KnownKeys(used=_TOKENS, harmless=[name for name in HARMLESS if name not in GENERATION])
_CROSS, _SELF = ".crossattention.", ".attention."


def read_folder(path: str, trust_pickle: bool = False) -> BertCheckpoint:
    """Reads a folder that `EncoderDecoderModel.save_pretrained` wrote.

    Raises `InputError`: a file is missing or damaged, the models are no BERTs of one config, or no decoder is there.
    """
    file = os.path.join(path, CONFIG_FILE)
    values = read_json_object(file)
    _KEYS.check(values, file)
    decoders = _decoders()
    of_encoder, of_decoder = (dict(member(values, part, dict, file, {})) for part in ("encoder", "decoder"))
    for part, config in (("encoder", of_encoder), ("decoder", of_decoder)):
        if config.get("model_type") not in decoders:
            raise InputError(
                f"{file}: the {part} is {reprlib.repr(config.get('model_type'))}. Only an encoder and a decoder of the "
                f"model type {' or '.join(map(repr, decoders))} can be read."
            )
    if any(of_decoder.pop(name, False) is not value for name, value in _OF_DECODER.items()):
        raise InputError(f"{file}: the decoder needs is_decoder and add_cross_attention, both true.")
    config, config_of_decoder = (config_from(path, part) for part in (of_encoder, of_decoder))
    pairs = zip(config.to_dict().items(), config_of_decoder.to_dict().items(), strict=True)
    different = [one[0] for one, other in pairs if one != other]
    if different:
        raise InputError(f"{file}: encoder and decoder need the same config. They differ in {', '.join(different)}.")
    _, stored, _ = read_weights(path, trust_pickle)
    table = config.family.hugging_face.names(config, None)
    tensors, ignored = {}, []
    for part in (form.ENCODER, form.DECODER, form.CROSS_ATTENTION):
        prefix = "encoder." if part == form.ENCODER else "decoder."
        theirs = {
            name.removeprefix(prefix).replace(_CROSS, _SELF): tensor
            for name, tensor in stored.items()
            if name.startswith(prefix) and (_CROSS in name) == (part == form.CROSS_ATTENTION)
        }
        found, unknown = named_as_ours(theirs, config, table)
        tensors |= {_of_part(name, part): tensor for name, tensor in found.items()}
        ignored += [prefix + name for name in unknown]
    tensors.pop(form.OUTPUT_EMBEDDINGS, None)  # a second copy of the decoder's table
    ignored += [name for name in stored if not name.startswith(("encoder.", "decoder."))]
    tokenizer, remarks = read_tokenizer(path, config.vocab_size)
    remarks = [*remarks, *_generation_notes(path, values, tokenizer)]
    return BertCheckpoint(
        path=path,
        kind="Hugging Face EncoderDecoderModel",
        config=config,
        tokenizer=tokenizer,
        tensors=tensors,
        ignored=tuple(ignored),
        remarks=tuple(remarks),
    )


def _generation_notes(path: str, values: Mapping, vocabulary: TokenTable | None) -> list[str]:
    """Returns notes on settings for writing texts. Raises `InputError` if these have others than [CLS] and [SEP]."""
    file = os.path.join(path, _GENERATION_FILE)
    settings = {name: values[name] for name in (*_TOKENS, *GENERATION) if values.get(name) is not None}
    if os.path.isfile(file):
        settings |= {name: value for name, value in read_json_object(file).items() if value is not None}
    if vocabulary is not None:
        start = settings.get("decoder_start_token_id", settings.get("bos_token_id", vocabulary.cls_id))
        ends = settings.get("eos_token_id", vocabulary.sep_id)
        if start != vocabulary.cls_id or ends not in (vocabulary.sep_id, [vocabulary.sep_id]):
            raise InputError(
                f"{path}: texts begin with the token {reprlib.repr(start)} and end with {reprlib.repr(ends)} "
                f"(decoder_start_token_id, eos_token_id). Only [CLS], {vocabulary.cls_id}, and [SEP], "
                f"{vocabulary.sep_id}, are supported."
            )
    return _GENERATION_KEYS.notes(settings, "the folder")


def write_folder(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes configs, `model.safetensors` and the tokenizer's files into an existing folder; see `write_hugging_face`.

    A decoder that shares the encoder's weights is written with a copy of them: transformers cannot share them.
    """
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    names = config.family.hugging_face
    if not (names and names.decoder):
        raise InputError(
            f"{checkpoint.path}: only a TextToText of the family {' or '.join(_decoders())} can be written for "
            f"transformers. Received: {config.model_type}. Write it with format='keras_bert'."
        )
    check_same_family(checkpoint, "transformers", always_projects=True, has_pooler=True)
    if not config.tie_word_embeddings:
        raise InputError(
            f"{checkpoint.path}: folders of transformers hold a TextToText whose output table is that of its tokens. "
            "Received: tie_word_embeddings=False. Write it with format='keras_bert'."
        )
    table = names.names(config, None)
    tensors = dict(checkpoint.tensors)
    if form.DECODER not in checkpoint.heads:
        tensors |= _encoder_as_decoder(checkpoint)
    written, left_out = {}, []
    for name, tensor in tensors.items():
        theirs = _their_name(name, table, names.prefix)
        if theirs is None:
            left_out.append(name)
        else:
            written[theirs[0]] = to_theirs(tensor, theirs[1])
    with atomic_file(os.path.join(folder, SAFETENSORS_FILE)) as file:
        write_safetensors(file, written, {"format": "pt"})
    tokens = {"pad_token_id": 0}
    if tokenizer is not None:
        tokens = {"decoder_start_token_id": tokenizer.cls_id, "bos_token_id": tokenizer.cls_id}
        tokens |= {"eos_token_id": tokenizer.sep_id, "pad_token_id": tokenizer.pad_id}
        write_tokenizer(folder, tokenizer, config)
    values = {
        "architectures": ["EncoderDecoderModel"],
        "model_type": "encoder-decoder",
        "is_encoder_decoder": True,
        "encoder": config_values(checkpoint, f"{names.classes}Model"),
        "decoder": config_values(checkpoint, names.decoder) | _OF_DECODER,
        "tie_word_embeddings": True,
        **tokens,
    }
    for name, content in ((CONFIG_FILE, values), (_GENERATION_FILE, tokens)):
        with atomic_file(os.path.join(folder, name)) as file:
            file.write((json.dumps(content, indent=2) + "\n").encode())
    return left_out


def _decoders() -> list[str]:
    """Returns the families that have a decoder in transformers."""
    return list(families(has=lambda entry: entry.hugging_face and entry.hugging_face.decoder))


def _of_part(name: str, part: str) -> str:
    """Returns the name of a weight of a BERT as that of the part it belongs to here."""
    if form.part_of(name) != form.ENCODER:
        return name
    if part == form.CROSS_ATTENTION:
        name = name.replace("/attention_layer_norm/", "/layer_norm/")
    return part + name.removeprefix(form.ENCODER)


def _their_name(name: str, table: NameTable, prefix: str) -> tuple[str, str] | None:
    """Returns the name of one of our weights in an `EncoderDecoderModel`, and its layout there; None if it has none."""
    part, _, rest = name.partition("/")
    of_encoder = name
    if part in (form.DECODER, form.CROSS_ATTENTION):
        of_encoder = f"{form.ENCODER}/{rest}"
        if part == form.CROSS_ATTENTION:
            of_encoder = of_encoder.replace("/layer_norm/", "/attention_layer_norm/")
    theirs = table.theirs(of_encoder)
    if theirs is None:
        return None
    if part == form.ENCODER:
        return "encoder." + theirs[0].removeprefix(f"{prefix}."), theirs[1]
    key = theirs[0].replace(_SELF, _CROSS, 1) if part == form.CROSS_ATTENTION else theirs[0]
    return f"decoder.{key}", theirs[1]


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the arguments, and the checkpoint of an encoder with a copy of its embeddings and blocks as decoder."""
    if arguments.get("shared") or {form.DECODER, form.CROSS_ATTENTION} & set(checkpoint.heads):
        return dict(arguments), checkpoint
    return dict(arguments), checkpoint.replace(tensors={**checkpoint.tensors, **_encoder_as_decoder(checkpoint)})


def _encoder_as_decoder(checkpoint: BertCheckpoint) -> dict:
    """Returns the tensors of the encoder by the names that they have in a decoder."""
    return {
        form.DECODER + name.removeprefix(form.ENCODER): tensor
        for name, tensor in checkpoint.tensors.items()
        if form.part_of(name) == form.ENCODER
    }
