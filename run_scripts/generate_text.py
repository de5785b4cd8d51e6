"""Continues a prompt by filling masks repeatedly.

BERT has learnt to fill gaps in texts, not to write: it does not know when a text ends, so --length gives the number of
tokens, and its texts lose coherence sooner than those of a left-to-right model. See docs/text_prediction.md.

Example:
  python -m run_scripts.generate_text --init_checkpoint=bert-base --prompt='The king rode' --length=12 --num_texts=3
"""

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.option_flags import define_flag, define_option_flags, flag_values
from keras_bert.tasks.masked_lm.text_generation import GenerationOptions
from run_scripts.asked_models import define_casing_flag


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint with a masked-LM head, of any format.", required=True)
    flags.DEFINE_multi_string("prompt", [""], "The beginning of the text; may be given several times.")
    define_flag("num_texts", 1, "Texts for each prompt, with the seeds random_seed, +1, ...", at_least=1)
    define_option_flags(GenerationOptions)
    define_casing_flag()


def main():
    from keras_bert.tasks.masked_lm.model import MaskedLM
    from keras_bert.tasks.masked_lm.text_generation import generate_text

    arguments = flags.FLAGS
    refuse_flags_without_effect(arguments.order == "mask_predict", "without --order=mask_predict", "rounds")
    model = MaskedLM.from_pretrained(arguments.init_checkpoint, do_lower_case=arguments.do_lower_case)
    options = flag_values(GenerationOptions)
    for number in range(arguments.num_texts):
        seed = options["seed"] + number
        for one in generate_text(model, arguments.prompt, **{**options, "seed": seed}):
            print(one.text)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
