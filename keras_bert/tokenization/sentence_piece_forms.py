"""How the SentencePiece tokenizers of Hugging Face's classes differ: model file, special tokens, ids, preparation.

The ids of XLM-RoBERTa and CamemBERT are not the numbers of the pieces in the model file: fairseq put other tokens in
front. Nothing here adds a number to ids. The pieces are put into the order of the ids instead, and that model runs.
"""

import dataclasses
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.tokenization.sentence_piece_model import CONTROL, UNKNOWN, Piece
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, XLM_ROBERTA_SPECIAL_TOKENS, SpecialTokens

ALBERT_SPECIAL_TOKENS = SpecialTokens(
    cls="[CLS]", sep="[SEP]", pad="<pad>", unk="<unk>", mask="[MASK]", mask_takes_space=True
)
XLNET_SPECIAL_TOKENS = SpecialTokens(
    cls="<cls>", sep="<sep>", pad="<pad>", unk="<unk>", mask="<mask>", mask_takes_space=True
)


@dataclasses.dataclass(frozen=True)
class SentencePieceForm:
    """What the tokenizers of one class have in common.

    Attributes:
        tokenizer_class: the name of the class in Hugging Face.
        model_file: the name of the model file in a folder.
        special_tokens: their names, if the folder does not name them.
        lower_case: the value of `do_lower_case` if the folder does not state it; None if the class has no such setting.
        prepares: whether texts and numbers are prepared as in google-research/albert.
        replaced: the pieces at the start of a model file that have no ids, or others.
        first: the tokens with the first ids, which replace them.
        appends_mask: whether the mask follows the pieces of the file, if it is not one of them.
        removes_accents: whether texts lose their accents by default, those that keep their case too.
        cls_is_last: whether [CLS] ends a row.
    """

    tokenizer_class: str
    model_file: str
    special_tokens: SpecialTokens
    lower_case: bool | None = None
    prepares: bool = False
    replaced: tuple[Piece, ...] = ()
    first: tuple[Piece, ...] = ()
    appends_mask: bool = True
    removes_accents: bool = False
    cls_is_last: bool = False

    def in_order_of_ids(self, pieces: Sequence[Piece], mask: str) -> tuple[Piece, ...]:
        """Returns the tokens in the order of their ids, from the pieces of a model file and the name of the mask."""
        if not self.appends_mask:
            return tuple(pieces)
        pieces = self._without(self.replaced, pieces)
        texts = {piece.text for piece in pieces}
        twice = [piece.text for piece in self.first if piece.text in texts]
        if twice:
            raise InputError(
                f"The SentencePiece model has the piece {twice[0]}, which a {self.tokenizer_class} has in front of the "
                "pieces. State the right tokenizer_class in tokenizer_config.json, or give another file."
            )
        return (*self.first, *pieces, *([] if mask in texts else [Piece(mask, 0.0, CONTROL)]))

    def in_order_of_file(self, pieces: Sequence[Piece], mask: str) -> tuple[Piece, ...]:
        """Returns the pieces of a model file for which `in_order_of_ids` returns `pieces`."""
        kept = self._without(self.first, pieces)
        if self.appends_mask and kept and kept[-1].text == mask:
            kept = kept[:-1]
        return (*self.replaced, *kept)

    def _without(self, first: Sequence[Piece], pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        """Returns the pieces behind the first ones. Raises `InputError` if these are those of another class."""
        expected = [(piece.text, piece.type == UNKNOWN) for piece in first]
        found = [(piece.text, piece.type == UNKNOWN) for piece in pieces[: len(first)]]
        if found != expected:
            received, names = (" ".join(text for text, _ in texts) for texts in (found, expected))
            raise InputError(
                f"The tokens of a {self.tokenizer_class} begin with {names}, of which the unknown token is "
                f"{self.special_tokens.unk}. Received: {received!r:.200}. State the right tokenizer_class in "
                "tokenizer_config.json, or use the files of the original model."
            )
        return tuple(pieces[len(first) :])


def _special(*names: str) -> tuple[Piece, ...]:
    return tuple(Piece(name, 0.0, UNKNOWN if name == "<unk>" else CONTROL) for name in names)


# BigBird's tokenizer has this form too, and neither lower-cases nor removes accents.
ALBERT = SentencePieceForm(
    "AlbertTokenizer", "spiece.model", ALBERT_SPECIAL_TOKENS, True, prepares=True, appends_mask=False
)
XLNET = SentencePieceForm(
    "XLNetTokenizer",
    "spiece.model",
    XLNET_SPECIAL_TOKENS,
    False,
    prepares=True,
    appends_mask=False,
    removes_accents=True,
    cls_is_last=True,
)
XLM_ROBERTA = SentencePieceForm(
    "XLMRobertaTokenizer",
    "sentencepiece.bpe.model",
    XLM_ROBERTA_SPECIAL_TOKENS,
    replaced=_special("<unk>", "<s>", "</s>"),
    first=_special("<s>", "<pad>", "</s>", "<unk>"),
)
CAMEMBERT = SentencePieceForm(
    "CamembertTokenizer",
    "sentencepiece.bpe.model",
    XLM_ROBERTA_SPECIAL_TOKENS,
    replaced=_special("<unk>"),
    first=(*_special("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>"), Piece("<unk>NOTUSED", -100.0, CONTROL)),
)
DEBERTA = SentencePieceForm("DebertaV2Tokenizer", "spm.model", BERT_SPECIAL_TOKENS, False)
_FORMS = (ALBERT, XLNET, XLM_ROBERTA, CAMEMBERT, DEBERTA)
MODEL_FILES = tuple(dict.fromkeys(form.model_file for form in _FORMS))


def form_of(tokenizer_class: str | None, file: str, tokens: Sequence[str]) -> SentencePieceForm:
    """Returns the form of a tokenizer: by the class that its folder states, or by the name of a file and its tokens."""
    for form in _FORMS:
        if tokenizer_class and tokenizer_class.startswith(form.tokenizer_class):
            return form
    for form in (CAMEMBERT, XLM_ROBERTA):
        if tuple(tokens[: len(form.first)]) == tuple(piece.text for piece in form.first):
            return form
    if file == XLM_ROBERTA.model_file:
        return XLM_ROBERTA
    if file == DEBERTA.model_file or (file not in MODEL_FILES and DEBERTA.special_tokens.unk in tokens):
        return DEBERTA
    is_known = tokenizer_class is not None and file in MODEL_FILES
    has_xlnets = XLNET_SPECIAL_TOKENS.cls in tokens and ALBERT_SPECIAL_TOKENS.cls not in tokens
    return XLNET if not is_known and has_xlnets else ALBERT
