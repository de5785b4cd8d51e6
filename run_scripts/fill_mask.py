"""Predicts tokens for the [MASK]s of a text, the most probable first.

A text may have several masks. Each is predicted independently. With --joint they are filled one after the other, the
most certain first, so that they fit together.

Example:
  python -m run_scripts.fill_mask --init_checkpoint=bert-base --text='Paris is the [MASK] of France.'
  python -m run_scripts.fill_mask --init_checkpoint=bert-base --text='The [MASK] ran.' --targets=dog,cat,stone

The model is a checkpoint, or a folder of export_model --format=onnx or litert, which starts in a fraction of the time.
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import define_flag, flags_by_name
from run_scripts.asked_models import (
    define_batch_size_flag,
    define_casing_flag,
    define_runtime_flags,
    open_model,
    read_texts,
)


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint with a masked-LM head, or an export.", required=True)
    flags.DEFINE_multi_string("text", [], "A text with one or more [MASK]; may be given several times.")
    flags.DEFINE_string("input_file", None, "Texts, one per line.")
    flags.DEFINE_string("output_file", None, "An additional file for the answers: JSON Lines, one line per text.")
    define_flag("top_k", 5, "The number of tokens for each mask.", at_least=1)
    flags.DEFINE_list("targets", None, "Score only these words; each must be one token of the vocabulary.")
    flags.DEFINE_bool("joint", False, "Whether the masks of a text are filled together.")
    flags.DEFINE_integer("max_seq_length", None, "Longer texts are cut. The default is all positions of the model.")
    define_batch_size_flag()
    define_casing_flag()
    define_runtime_flags()


def main():
    from keras_bert.program.atomic_output import atomic_file, check_output_file
    from keras_bert.program.errors import InputError

    arguments = flags.FLAGS
    if arguments.output_file:
        check_output_file(arguments.output_file, filter(None, [arguments.input_file]))
    texts = [*arguments.text, *(read_texts(arguments.input_file) if arguments.input_file else [])]
    if not texts:
        raise InputError("There is nothing to fill in. Give --text or --input_file.")

    import dataclasses
    import json

    casing = {} if arguments.do_lower_case is None else {"do_lower_case": arguments.do_lower_case}
    model = open_model("MaskedLM", arguments.init_checkpoint, **casing)
    answers = model.predict(texts, **flags_by_name("top_k", "targets", "joint", "max_seq_length", "batch_size"))
    if arguments.output_file:
        with atomic_file(arguments.output_file) as file:
            for answer in answers:
                file.write((json.dumps(dataclasses.asdict(answer), ensure_ascii=False) + "\n").encode())
    for answer in answers:
        print(f"{answer}\n")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
