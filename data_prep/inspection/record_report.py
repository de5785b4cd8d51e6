"""Statistics of records as one dictionary (the JSON report), as a page of text, and what is suspicious in words."""

from typing import Any

from data_prep.inspection.record_statistics import RecordStatistics, spread

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
    """Returns everything that was counted, and warnings, ready for JSON.

    Args:
        expected_mask_rate: what the records were made with; 0.15 when None.
    """
    num_tokens, num_predicted = statistics.num_tokens, statistics.num_predicted
    summary: dict[str, Any] = {
        "num_records": statistics.records_by_file.total(),
        "num_files": len(statistics.records_by_file),
        "features": {name: feature.summary() for name, feature in statistics.features.items()},
    }
    if num_tokens:
        summary["num_tokens"] = num_tokens
        summary["num_sequences"] = statistics.num_sequences
        summary["lengths"] = spread(statistics.lengths)
        summary["padding_share"] = 1 - num_tokens / statistics.num_columns
        summary["identical_records"] = statistics.identical_records.share_repeated()
        summary["same_texts"] = statistics.same_texts.share_repeated()
        if statistics.vocabulary is not None:
            summary["unknown_share"] = statistics.num_unknown / num_tokens
    if num_tokens and num_predicted:
        summary["num_predicted"] = num_predicted
        summary["predicted_share"] = num_predicted / num_tokens
        summary["predictions"] = spread(statistics.predictions)
        kinds = {
            "[MASK]": statistics.num_masked,
            "the token itself": statistics.num_kept,
            "another token": statistics.num_replaced,
        }
        if any(kinds.values()):
            summary["predicted_tokens"] = {name: number / sum(kinds.values()) for name, number in kinds.items()}
    if statistics.next_labels:
        summary["next_sentence_labels"] = {str(label): n for label, n in sorted(statistics.next_labels.items())}
    summary["warnings"] = [
        f"{description}: {number:,} record(s), the first is {statistics.first_faulty[description]}"
        for description, number in statistics.num_faulty.items()
    ]
    summary["warnings"] += _find_unusual(summary, expected_mask_rate or _USUAL_MASK_RATE)
    return summary


def _find_unusual(summary: dict[str, Any], mask_rate: float) -> list[str]:
    warnings = [
        f"{name} has different lengths, from {feature['length'][0]} to {feature['length'][1]}"
        for name, feature in summary["features"].items()
        if feature["length"][0] != feature["length"][1]
    ]
    share = summary.get("predicted_share", mask_rate)
    if abs(share / mask_rate - 1) > _MASK_RATE_TOLERANCE and summary["num_tokens"] >= _ENOUGH:
        warnings.append(f"{share:.1%} of the tokens are predicted where {mask_rate:.0%} are expected")
    if "predicted_tokens" in summary and summary["num_predicted"] >= _ENOUGH:
        masked, kept, replaced = summary["predicted_tokens"].values()
        if max(abs(masked - _USUAL_MASKED), abs(kept - _USUAL_KEPT)) > _KIND_TOLERANCE:
            warnings.append(
                f"of the predicted tokens {masked:.1%} are [MASK], {kept:.1%} as they were and {replaced:.1%} "
                "replaced; 80, 10 and 10 % are usual"
            )
    labels = summary.get("next_sentence_labels", {})
    num_labels = sum(labels.values())
    if num_labels > 1 and len(labels) == 1:
        warnings.append(f"all next_sentence_labels are {next(iter(labels))}: the task teaches nothing")
    elif num_labels >= _ENOUGH and not _BALANCED[0] <= labels["1"] / num_labels <= _BALANCED[1]:
        warnings.append(f"{labels['1'] / num_labels:.1%} of the next_sentence_labels are 1; half is usual")
    if summary.get("unknown_share", 0) > _MANY_UNKNOWN:
        warnings.append(f"{summary['unknown_share']:.1%} of the tokens are unknown: the vocabulary is for other texts")
    if summary.get("identical_records", 0) > _MANY_REPEATED:
        warnings.append(f"{summary['identical_records']:.1%} of the records are exact copies of others")
    return warnings


def report_text(summary: dict[str, Any]) -> str:
    """Returns a summary as the page that the command prints."""
    lines = [f"{summary['num_records']:,} records in {summary['num_files']} file(s)"]
    lines += ["", *_feature_table(summary["features"])]
    if "lengths" in summary:
        lines += ["", "tokens in a record", f"  {_spread_text(summary['lengths'])}"]
        counts = summary["lengths"]["histogram"]
        for numbers, count in counts.items():
            bar = "#" * round(_BAR_WIDTH * count / max(counts.values()))
            lines.append(f"  {numbers:>9}  {count / summary['num_records']:6.1%}  {bar}".rstrip())
        lines += ["", f"padding                {summary['padding_share']:.2%} of the columns"]
        if summary["num_sequences"] > summary["num_records"]:
            lines.append(f"sequences              {summary['num_sequences'] / summary['num_records']:.2f} in a record")
        if "unknown_share" in summary:
            lines.append(f"unknown tokens         {summary['unknown_share']:.2%}")
        lines.append(f"repeated records       {summary['identical_records']:.2%} are exact copies of an earlier one")
        lines.append(f"repeated texts         {summary['same_texts']:.2%} repeat an earlier one, before masking")
    if "predictions" in summary:
        lines.append(f"tokens to predict      {summary['predicted_share']:.2%} of all, special tokens included")
        lines.append(f"predicted in a record  {_spread_text(summary['predictions'])}")
    if "predicted_tokens" in summary:
        lines.append(f"at their positions     {_shares(summary['predicted_tokens'])}")
    if "next_sentence_labels" in summary:
        meaning = "(1: the second segment does not follow the first)"
        lines.append(f"next_sentence_labels   {_shares(summary['next_sentence_labels'])}   {meaning}")
    if not summary["warnings"]:
        return "\n".join([*lines, "", "nothing suspicious"])
    return "\n".join([*lines, "", "suspicious", *(f"  {warning}" for warning in summary["warnings"])])


def _feature_table(features: dict[str, dict]) -> list[str]:
    width = max(map(len, features))
    lines = [f"  {'feature':{width}}  {'type':7}  {'length':>9}  values"]
    for name, feature in features.items():
        shortest, longest = feature["length"]
        length = str(longest) if shortest == longest else f"{shortest}-{longest}"
        values = ""
        if "counts" in feature:
            values = _shares(feature["counts"])
        elif "range" in feature:
            values = " to ".join(f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in feature["range"])
        lines.append(f"  {name:{width}}  {feature['dtype']:7}  {length:>9}  {values}".rstrip())
    return lines


def _spread_text(numbers: dict[str, Any]) -> str:
    return f"{numbers['min']} to {numbers['max']}, median {numbers['median']}, mean {numbers['mean']:.1f}"


def _shares(counts: dict[str, float]) -> str:
    return "   ".join(f"{name}: {count / sum(counts.values()):.2%}" for name, count in counts.items())
