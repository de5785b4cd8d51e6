"""Exports a model folder as a SavedModel that TensorFlow Serving takes: text in, answer out.

A classifier answers with a label and probabilities, a masked-LM or pre-trained model with what could stand at [MASK].

Example:
  python -m run_scripts.export_saved_model --model_dir=models/sentiment --output_dir=saved_models/sentiment
"""

from absl import flags

from keras_bert.command_line import run_command


def define_flags() -> None:
    flags.DEFINE_string("model_dir", None, "The model folder, or a checkpoint of any format.", required=True)
    flags.DEFINE_string(
        "output_dir", None, "Folder of the versions 1, 2, ...; the new one gets the next number.", required=True
    )
    flags.DEFINE_bool("text_pairs", False, "Whether the classifier takes two texts.")
    flags.DEFINE_integer("top_k", 5, "How many tokens a pre-trained model proposes for each [MASK].", lower_bound=1)
    flags.DEFINE_integer(
        "max_seq_length", None, "Longer texts are cut to so many tokens. The default is all of the model's positions."
    )


def main():
    from keras_bert.checkpoints.pretrained import from_pretrained
    from keras_bert.serving.export import export_for_serving

    arguments = flags.FLAGS
    model = from_pretrained(None, arguments.model_dir)
    version = export_for_serving(
        model,
        arguments.output_dir,
        text_pairs=arguments.text_pairs,
        top_k=arguments.top_k,
        max_seq_length=arguments.max_seq_length,
    )
    print(f"{type(model).__name__} exported to {version}")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
