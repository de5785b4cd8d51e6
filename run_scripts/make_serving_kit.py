"""Makes a folder with everything to serve a SavedModel with TensorFlow Serving: warm-up requests, configuration files,
start scripts for Docker and for an installed server, and a Kubernetes manifest.

Examples:
  python -m run_scripts.make_serving_kit --saved_model=saved_models/sentiment --output_dir=serving_kit
  python -m run_scripts.make_serving_kit --saved_model=saved_models/sentiment --output_dir=serving_kit \
      --examples=requests.jsonl
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag


def define_flags() -> None:
    flags.DEFINE_string("saved_model", None, "A version of a SavedModel, or the folder of its versions.", required=True)
    flags.DEFINE_string("output_dir", None, "The folder of the kit, which must not exist yet.", required=True)
    flags.DEFINE_string("model_name", None, "The model's name in requests. The default is the name of its folder.")
    help = 'Rows for the warm-up, one per line: {"text": "a wonderful film"}. The default is made-up texts.'
    flags.DEFINE_string("examples", None, help)
    help = "The numbers of rows of warm-up requests."
    define_flag("warm_up_batch_sizes", [1, 2, 8, 32], help, is_list=True, at_least=1)
    flags.DEFINE_string("image", None, "The Docker image of TensorFlow Serving.")


def main():
    from keras_bert.tf_serving.kit.making import DEFAULT_IMAGE, make_serving_kit

    arguments = flags.FLAGS
    kit = make_serving_kit(
        arguments.saved_model,
        arguments.output_dir,
        name=arguments.model_name,
        examples=read_examples(arguments.examples) if arguments.examples else (),
        warm_up_batch_sizes=arguments.warm_up_batch_sizes,
        image=arguments.image or DEFAULT_IMAGE,
    )
    print(f"Serving kit written to {kit}. Start the server with {kit}/serve_with_docker.sh")


def read_examples(path: str) -> list[dict]:
    """Returns the rows of a JSON Lines file. Raises `InputError` with the number of an invalid line."""
    from data_prep.finetuning.tables import read_rows

    rows = [dict(row.values) for row in read_rows(path)]
    if not rows:
        raise InputError(f"{path} has no rows.")
    return rows


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
