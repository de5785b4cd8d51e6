"""The evaluation report of multiple choice: how often each position is chosen, and the worst errors."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from keras_bert.tasks.multiple_choice.examples import ChoiceExamples
from keras_bert.tasks.report_files import aligned, write_errors, write_text


def write_choice_report(
    folder: str | os.PathLike,
    examples: ChoiceExamples,
    predicted: Sequence[int],
    losses: Sequence[float],
    scores: Mapping[str, float],
) -> None:
    """Writes the report on a task with several choices for each prompt.

        report.txt     scores, accuracy by chance, and how often each position is right and was chosen: a model that
                       ignores the texts prefers some positions
        errors.tsv     the prompts with a wrong choice, the highest loss first

    Args:
        folder: the folder to write to. Existing files are replaced.
        examples: N examples with answers.
        predicted: N numbers of choices, from 0.
        losses: N losses.
        scores: name -> value, the first lines of `report.txt`.

    Raises:
        InputError: the files cannot be written.
    """
    num_choices, right = examples.num_choices, examples.answers
    is_right, is_taken = Counter(right), Counter(predicted)
    both = Counter(one for one, other in zip(right, predicted, strict=True) if one == other)
    table = [[str(place), is_right[place], is_taken[place], both[place]] for place in range(num_choices)]
    pairs = list(zip(examples.choices, right, predicted, strict=True))
    columns = {
        "prompt": examples.prompts,
        "right": [texts[one] for texts, one, _ in pairs],
        "predicted": [texts[other] for texts, _, other in pairs],
        "loss": losses,
    }
    num_wrong = write_errors(folder, "example", columns, [one != other for _, one, other in pairs])
    shown = [["examples", len(examples)], *([name, float(value)] for name, value in scores.items())]
    text = aligned(["", "value"], [*shown, ["accuracy by chance", 1 / num_choices]])
    text += "\n" + aligned(["choice", "is right", "was taken", "rightly"], table)
    write_text(os.path.join(folder, "report.txt"), text + f"\n{num_wrong} of {len(examples)} are wrong: errors.tsv\n")
