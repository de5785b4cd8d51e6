"""The options of writing text with a masked language model. Nothing here imports Keras, so that `--help` is quick."""

import dataclasses

from keras_bert.program.options import Options, documented, option

ORDERS = ("left_to_right", "most_confident", "random", "mask_predict")


@documented
@dataclasses.dataclass(frozen=True)
class GenerationOptions(Options):
    """How text is generated.

    References: Wang & Cho, 2019, BERT has a Mouth, and It Must Speak (sampling again at random positions);
        Ghazvininejad et al., 2019, Mask-Predict.
    """

    length: int = option(20, "Tokens to write.", at_least=1)
    order: str = option(
        "left_to_right",
        "Which mask is filled next; most_confident: the mask with the most probable token. mask_predict fills all at "
        "once; each later pass masks and fills the least probable tokens again, fewer each time.",
        choices=ORDERS,
    )
    temperature: float = option(
        1.0,
        "0 selects the most probable token; 1 draws from the model's probabilities; higher values give more varied "
        "texts.",
        at_least=0.0,
    )
    top_k: int | None = option(
        50,
        "Draw from this many most probable tokens; 0 on the command line, None in Python: from all.",
        at_least=1,
        read=lambda number: number or None,
    )
    rounds: int = option(10, "Passes of mask_predict.", at_least=1)
    revisions: int = option(
        0, "How often, at the end, every token is masked and drawn again, in random order.", at_least=0
    )
    seed: int = option(0, "The same seed gives the same text.", flag="random_seed")
