"""Statistics of records as one dictionary (the JSON report), as a page of text, and what is suspicious in words."""

import textwrap
from typing import Any

import numpy as np

from data_prep.inspection.bert_features import OTHER_NAMES
from data_prep.inspection.record_statistics import RecordStatistics
from data_prep.inspection.record_text import token_text
from keras_bert.records import features

_MOST_FREQUENT = 20
_BARS = 16
_WIDTH = 118
_BAR_WIDTH = 40

# What is usual: 15 % predicted, of these 80 % masked, 10 % kept, 10 % replaced; half of the next sentences random.
_USUAL_MASK_RATE = 0.15
_MASK_RATE_TOLERANCE = 0.2
_USUAL_MASKED, _USUAL_KEPT, _KIND_TOLERANCE = 0.8, 0.1, 0.04
_BALANCED = (0.35, 0.65)
_MANY_UNKNOWN = 0.05
_MANY_REPEATED = 0.01
# Shares of fewer than this are chance.
_ENOUGH = 1000


def summarize(statistics: RecordStatistics, expected_mask_rate: float | None = None) -> dict[str, Any]:
    """Returns everything that was counted, ready for JSON.

    Args:
        expected_mask_rate: what the records were made with; 0.15 when None.
    """
    summary = {
        "num_records": statistics.num_records,
        "num_files": statistics.num_files,
        "num_bytes": statistics.num_bytes,
        "features": {name: _feature(feature) for name, feature in statistics.features.items()},
    }
    if statistics.num_columns:
        summary["lengths"] = {**statistics.lengths.summary(), "histogram": statistics.lengths.counts.tolist()}
        summary["num_tokens"] = statistics.num_tokens
        summary["padding_share"] = 1 - statistics.num_tokens / statistics.num_columns
        if statistics.sequences_per_row.summary().get("max", 0) > 1:
            summary["sequences_per_row"] = statistics.sequences_per_row.summary()
            summary["sequence_lengths"] = statistics.sequence_lengths.summary()
        summary["tokens"] = _tokens(statistics)
        summary["repetitions"] = {
            "identical_records": statistics.records.summary(),
            "same_texts": statistics.texts.summary(),
        }
    if statistics.num_predicted:
        summary["predictions"] = _predictions(statistics)
    if statistics.next_labels.total:
        summary["next_sentence_labels"] = {
            str(label): int(count) for label, count in enumerate(statistics.next_labels.counts) if count
        }
    summary["warnings"] = _warnings(statistics, summary, expected_mask_rate or _USUAL_MASK_RATE)
    return summary


def _feature(feature) -> dict[str, Any]:
    result = {"dtype": feature.dtype, "length": [feature.shortest, feature.longest]}
    if feature.lowest is not None:
        result["range"] = [feature.lowest, feature.highest]
    if feature.counts:
        result["counts"] = {f"{value:g}": count for value, count in sorted(feature.counts.items())}
    return result


def _tokens(statistics: RecordStatistics) -> dict[str, Any]:
    counts, vocabulary = statistics.tokens.counts, statistics.vocabulary
    result: dict[str, Any] = {"num_distinct": int((counts > 0).sum())}
    if vocabulary is not None:
        result["vocabulary_size"] = len(vocabulary)
        result["unknown_share"] = _share(counts[vocabulary.unk_id : vocabulary.unk_id + 1].sum(), statistics.num_tokens)
    most_frequent = np.argsort(-counts, kind="stable")[: min(_MOST_FREQUENT, result["num_distinct"])].tolist()
    result["most_frequent"] = [
        {"id": number, "token": token_text(number, vocabulary), "count": int(counts[number])}
        for number in most_frequent
    ]
    return result


def _predictions(statistics: RecordStatistics) -> dict[str, Any]:
    num_kept, num_masked, num_replaced = statistics.num_kept, statistics.num_masked, statistics.num_replaced
    total = num_kept + num_masked + num_replaced
    result = {
        "num_predicted": statistics.num_predicted,
        "share_of_tokens": _share(statistics.num_predicted, statistics.num_tokens),
        "per_record": statistics.predictions.summary(),
        "masked_share": _share(num_masked, total),
        "kept_share": _share(num_kept, total),
        "replaced_share": _share(num_replaced, total),
        "mask_id": statistics.mask_id,
        "share_by_column": [
            _share(*pair) for pair in zip(statistics.predicted_at.counts, statistics.tokens_at.counts, strict=False)
        ],
    }
    if statistics.vocabulary is not None:
        result["special_share_of_replacements"] = _share(statistics.num_special_replacements, num_replaced)
        result["words_of_several_pieces"] = {
            "touched": statistics.num_words_touched,
            "whole_share": _share(statistics.num_words_whole, statistics.num_words_touched),
        }
    return result


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _warnings(statistics: RecordStatistics, summary: dict[str, Any], mask_rate: float) -> list[str]:
    warnings = [
        f"{name}: {finding.num_records:,} record(s), the first is {finding.first}"
        for name, finding in statistics.findings.items()
    ]
    warnings += [
        f"{name} has different lengths, from {feature['length'][0]} to {feature['length'][1]}"
        for name, feature in summary["features"].items()
        if feature["length"][0] != feature["length"][1]
    ]
    warnings += _length_warnings(summary["features"])
    if "predictions" in summary:
        warnings += _prediction_warnings(statistics, summary["predictions"], mask_rate)
    labels = summary.get("next_sentence_labels", {})
    num_labels = sum(labels.values())
    if num_labels > 1 and len(labels) == 1:
        warnings.append(f"all next_sentence_labels are {next(iter(labels))}: the task teaches nothing")
    elif num_labels >= _ENOUGH and not _BALANCED[0] <= _share(labels.get("1", 0), num_labels) <= _BALANCED[1]:
        warnings.append(f"{labels.get('1', 0) / num_labels:.1%} of the next_sentence_labels are 1; half is usual")
    if summary.get("tokens", {}).get("unknown_share", 0) > _MANY_UNKNOWN:
        warnings.append(
            f"{summary['tokens']['unknown_share']:.1%} of the tokens are unknown: the vocabulary did not fit the text"
        )
    identical = summary.get("repetitions", {}).get("identical_records", {})
    if identical.get("share_repeated", 0) > _MANY_REPEATED:
        warnings.append(f"{identical['share_repeated']:.1%} of the records are exact copies of others")
    return warnings


def _length_warnings(found: dict[str, dict]) -> list[str]:
    """Lists of a record that belong together must have the same length."""
    lengths = {OTHER_NAMES.get(name, name): feature["length"] for name, feature in found.items()}
    together = [
        (features.INPUT_IDS, (features.INPUT_MASK, features.SEGMENT_IDS)),
        (features.MASKED_LM_POSITIONS, (features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS)),
    ]
    return [
        f"{name} has {lengths[name][1]} places and {first} {lengths[first][1]}"
        for first, others in together
        for name in others
        if first in lengths and name in lengths and lengths[name] != lengths[first]
    ]


def _prediction_warnings(statistics: RecordStatistics, predictions: dict[str, Any], mask_rate: float) -> list[str]:
    warnings = []
    if statistics.num_tokens < _ENOUGH:
        return warnings
    share = predictions["share_of_tokens"]
    if abs(share / mask_rate - 1) > _MASK_RATE_TOLERANCE:
        most = predictions["per_record"]["max"]
        at_most = statistics.predictions.counts[most] / statistics.predictions.total
        reason = f"; {at_most:.0%} of the records have the largest number, {most}" if at_most > 0.5 else ""
        warnings.append(f"{share:.1%} of the tokens are predicted where {mask_rate:.0%} are expected{reason}")
    if predictions["mask_id"] is None:
        warnings.append("no token stands at most of the changed places: is there no [MASK]?")
    elif statistics.num_predicted >= _ENOUGH:
        kinds = predictions["masked_share"], predictions["kept_share"]
        if any(abs(a - b) > _KIND_TOLERANCE for a, b in zip(kinds, (_USUAL_MASKED, _USUAL_KEPT), strict=True)):
            warnings.append(
                f"of the predicted tokens {kinds[0]:.1%} are [MASK], {kinds[1]:.1%} as they were and "
                f"{predictions['replaced_share']:.1%} replaced; 80, 10 and 10 % are usual"
            )
    if predictions.get("special_share_of_replacements"):
        warnings.append(
            f"{predictions['special_share_of_replacements']:.1%} of the replaced tokens became special or unused ones, "
            "as google-research/bert does it"
        )
    return warnings


def report_text(summary: dict[str, Any]) -> str:
    """Returns a summary as the page that the command prints."""
    size = f"{summary['num_bytes'] / 1e6:,.1f} MB"
    lines = [f"{summary['num_records']:,} records in {summary['num_files']} file(s), {size} uncompressed"]
    lines += ["", *_feature_table(summary["features"])]
    if "lengths" in summary:
        lines += ["", "tokens in a record", *_histogram_lines(summary["lengths"])]
        lines.append(f"  padding        {summary['padding_share']:.2%} of the columns")
        if "sequences_per_row" in summary:
            lines.append(f"  sequences      {_spread(summary['sequences_per_row'])} in a row")
            lines.append(f"  their lengths  {_spread(summary['sequence_lengths'])}")
    if "predictions" in summary:
        lines += ["", "tokens to predict", *_prediction_lines(summary["predictions"])]
    if "next_sentence_labels" in summary:
        labels = summary["next_sentence_labels"]
        shares = "   ".join(f"{label}: {count / sum(labels.values()):.2%}" for label, count in labels.items())
        lines += ["", f"next_sentence_labels   {shares}   (1: the second segment does not follow the first)"]
    if "tokens" in summary:
        lines += ["", *_token_lines(summary["tokens"], summary["num_tokens"])]
        lines += ["", *_repetition_lines(summary["repetitions"])]
    if summary["warnings"]:
        lines += ["", "suspicious", *(f"  {warning}" for warning in summary["warnings"])]
    else:
        lines += ["", "nothing suspicious"]
    return "\n".join(lines)


def _feature_table(features: dict[str, dict]) -> list[str]:
    width = max(map(len, features), default=0)
    lines = []
    for name, feature in features.items():
        shortest, longest = feature["length"]
        length = str(longest) if shortest == longest else f"{shortest}-{longest}"
        line = f"  {name:{width}}  {feature['dtype']:7}  {length:>9}"
        if "counts" in feature:
            total = sum(feature["counts"].values())
            line += "  " + "  ".join(f"{value}: {count / total:.1%}" for value, count in feature["counts"].items())
        elif "range" in feature:
            line += "  " + " to ".join(f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in feature["range"])
        lines.append(line)
    return [f"  {'feature':{width}}  {'type':7}  {'length':>9}  values", *lines]


def _spread(summary: dict[str, float]) -> str:
    return (
        f"{summary['min']} to {summary['max']}, median {summary['median']}, mean {summary['mean']:.1f}, "
        f"90 % from {summary['percentile_5']} to {summary['percentile_95']}"
    )


def _histogram_lines(summary: dict[str, Any]) -> list[str]:
    low, high, counts = summary["min"], summary["max"], summary["histogram"]
    step = max(1, -(-(high - low + 1) // _BARS))
    bars = [(start, sum(counts[start : start + step])) for start in range(low, high + 1, step)]
    most = max(count for _, count in bars)
    lines = [f"  {_spread(summary)}"]
    for start, count in bars:
        end = min(start + step - 1, high)
        name = str(start) if start == end else f"{start}-{end}"
        bar = "#" * round(_BAR_WIDTH * count / most)
        lines.append(f"  {name:>9}  {count / sum(counts):6.1%}  {bar}".rstrip())
    return lines


def _prediction_lines(predictions: dict[str, Any]) -> list[str]:
    lines = [
        f"  share          {predictions['share_of_tokens']:.2%} of the tokens, special tokens included",
        f"  in a record    {_spread(predictions['per_record'])}",
        f"  what stands    [MASK] {predictions['masked_share']:.2%}   the token itself {predictions['kept_share']:.2%}"
        f"   another one {predictions['replaced_share']:.2%}",
    ]
    if predictions.get("words_of_several_pieces", {}).get("touched"):
        words = predictions["words_of_several_pieces"]
        lines.append(
            f"  words          {words['whole_share']:.1%} of the {words['touched']:,} words of several pieces that are "
            "touched are predicted in whole"
        )
    return lines


def _token_lines(tokens: dict[str, Any], num_tokens: int) -> list[str]:
    most = "  ".join(f"{token['token']} {token['count'] / num_tokens:.1%}" for token in tokens["most_frequent"])
    distinct = f"{tokens['num_distinct']:,} different ones"
    if "vocabulary_size" in tokens:
        distinct += f" of {tokens['vocabulary_size']:,} in the vocabulary; {tokens['unknown_share']:.2%} unknown"
    name = "  most frequent  "
    lines = textwrap.wrap(name + most, _WIDTH, subsequent_indent=" " * len(name), break_long_words=False)
    return ["tokens, before masking", f"  {distinct}", *lines]


def _repetition_lines(repetitions: dict[str, dict]) -> list[str]:
    lines = ["there more than once"]
    for name, what in (("identical_records", "records, as they are   "), ("same_texts", "texts, before masking ")):
        counted = repetitions[name]
        line = f"  {what}  {counted['share_repeated']:.2%} repeat an earlier one"
        if counted["most_copies"] > 1:
            line += f", one is there {counted['most_copies']:,} times"
        if counted["sampled_one_in"] > 1:
            line += f" (among one in {counted['sampled_one_in']})"
        lines.append(line)
    return lines
