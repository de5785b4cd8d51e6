"""Trains and evaluates a Transformer-XL on streams of text.

    run_language_model --input_file=train_stream --bert_config_file=transformer_xl.json --output_dir=runs/txl \\
        --do_train --do_eval --eval_input_file=test_stream --num_train_steps=2000 --learning_rate=1e-3

Streams are made by data_prep/create_language_model_data.py. The evaluation reports the perplexity of a token and, if
tokens are characters, bits per character. If the command is killed or stopped, the same command resumes from the newest
checkpoint in output_dir, with the memory of each row. The trained model is in output_dir/model.
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_option_flags, flags_by_name, options_of_flags
from keras_bert.training.run_options import LanguageModelOptions
from run_scripts.run_flags import define_device_flags, set_precision, strategy_of_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("input_file", None, "The stream to train on, a folder.")
    flags.DEFINE_string("eval_input_file", None, "The stream to evaluate on.")
    flags.DEFINE_string("output_dir", None, "The folder of this run: new, empty, or that of a run to resume.")
    flags.DEFINE_string("bert_config_file", None, "The config of the model. Not needed with init_checkpoint.")
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format to start from, instead of random weights.")
    flags.DEFINE_boolean("do_train", False, "Train.")
    flags.DEFINE_boolean("do_eval", False, "Evaluate, after the training if there is one.")
    flags.DEFINE_integer("eval_seq_length", None, "Tokens of a segment in evaluation (default: max_seq_length).")
    flags.DEFINE_integer("eval_batch_size", 8, "Rows of an evaluation step.")
    flags.DEFINE_integer("eval_mem_len", None, "Evaluate with this mem_len instead of the config's.")
    flags.DEFINE_integer("eval_clamp_len", None, "Evaluate with this clamp_len instead of the config's.")
    flags.DEFINE_boolean("eval_same_length", None, "Evaluate with this same_length instead of the config's.")
    define_option_flags(LanguageModelOptions)
    define_device_flags()
    flags.mark_flags_as_required(["output_dir"])


def main() -> None:
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("Nothing to do. Give --do_train, --do_eval or both.")
    for needs, name in (("do_train", "input_file"), ("do_eval", "eval_input_file")):
        if FLAGS[needs].value and not FLAGS[name].value:
            raise InputError(f"--{needs} needs a stream. Give --{name}.")
    with strategy_of_flags().scope():
        _train_and_evaluate()


def _train_and_evaluate() -> None:
    from keras_bert.config import BertConfig
    from keras_bert.training.language_modeling import evaluate_language_model, train_language_model
    from keras_bert.training.starting_point import StartingPoint

    set_precision()
    if FLAGS.do_train:
        options = options_of_flags(LanguageModelOptions)
        config = BertConfig.from_json_file(FLAGS.bert_config_file) if FLAGS.bert_config_file else None
        start = StartingPoint(config, init_checkpoint=FLAGS.init_checkpoint)
        train_language_model(FLAGS.output_dir, FLAGS.input_file, start, options)
    if FLAGS.do_eval:
        how = {name: FLAGS[f"eval_{name}"].value for name in ("mem_len", "clamp_len", "same_length")}
        how |= flags_by_name("init_checkpoint", "eval_batch_size")
        how["max_seq_length"] = FLAGS.eval_seq_length or FLAGS.max_seq_length
        evaluate_language_model(FLAGS.output_dir, FLAGS.eval_input_file, **how)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
