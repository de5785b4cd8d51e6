"""Asks a model written by export_model, and prints its answers. LiteRT and ONNX folders are asked without TensorFlow.

The inputs of the model are given by flags with their names, or on standard input, one question per line, with tabs
between columns: a text; a text and optionally a second one; a question and its context; a prompt and its choices. Every
line gets an answer: a blank line is an empty text.

Examples:
  python -m run_scripts.ask_saved_model --saved_model=saved_models/sentiment --text="a wonderful film"
  python -m run_scripts.ask_saved_model --saved_model=saved_models/bert --text="the capital of france is [MASK] ."
  python -m run_scripts.ask_saved_model --saved_model=saved_models/squad --question="Who?" --context="Ada wrote it."
  python -m run_scripts.ask_saved_model --saved_model=exports/ner --text="Ada met Grace." --runtime=onnxruntime
  python -m run_scripts.ask_saved_model --saved_model=saved_models/swag --prompt="It rains." --choices="We stay in." \
      --choices="We swim."
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from run_scripts.asked_models import define_runtime_flags
from run_scripts.questions import AskedModel, answer_questions, define_question_flags, given_questions


def define_flags() -> None:
    flags.DEFINE_string("saved_model", None, "A SavedModel, the folder of its versions, or an export.", required=True)
    define_question_flags()
    define_runtime_flags()


def main():
    given = given_questions()
    from keras_bert.serving import load

    path = flags.FLAGS.saved_model
    signature = load(path, flags.FLAGS.runtime, flags.FLAGS.precision).signatures.get("serving_default")
    if signature is None:
        raise InputError(
            f"{path} has no signature serving_default. Ask it in Python: "
            f"keras_bert.serving.load({path!r}).predict(texts)."
        )
    answer_questions(given, AskedModel(path, "serving_default", signature.inputs, signature))


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
