"""`Prompts`: what a model puts before each text. Imports no Keras, since loaded exports have prompts too."""

from collections.abc import Mapping

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import checked_text

_MOST_PROMPTS = 100  # each is a signature of an export
# What a text is in a search -> the names of its prompt, the first that a model has.
_ROLE_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}


class Prompts:
    """The prompts of a sentence encoder, or of a cross-encoder, which puts them before queries.

    Attributes:
        prompts: name -> text that is put before each text, such as {"query": "query: "}.
        default_prompt: the name of the prompt that is used when none is named; None for no prompt.
    """

    prompts: Mapping[str, str]
    default_prompt: str | None

    def prompt(self, name: str | None = None) -> str:
        """Returns the text of a prompt; None selects the default prompt, and "" is no prompt.

        Raises:
            InputError: the model has no prompt of this name.
        """
        name = self.default_prompt if name is None else name
        if not name:
            return ""
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise InputError(f"The model has no prompt {name!r}. Its prompts are: {known}.")
        return self.prompts[name]

    def prompt_for(self, role: str) -> str | None:
        """Returns the name of the prompt for texts in a role, "query" or "document"; None if the model has none."""
        return next((name for name in _ROLE_PROMPTS[role] if name in self.prompts), None)

    def check_prompts(self) -> None:
        """Raises `InputError` if there are too many prompts, or if one is not a text or does not exist."""
        if len(self.prompts) > _MOST_PROMPTS:
            raise InputError(f"At most {_MOST_PROMPTS} prompts are possible. Received: {len(self.prompts)}")
        for name, text in self.prompts.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise InputError(f"prompts must map names to texts. Received: {name!r}: {text!r:.100}")
        for text in (*self.prompts, *self.prompts.values()):
            checked_text(text, "a prompt")
        if self.default_prompt is not None:
            self.prompt(self.default_prompt)
