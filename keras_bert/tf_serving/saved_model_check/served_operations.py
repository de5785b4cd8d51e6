"""Lists the operations of stock TensorFlow Serving.

TensorFlow Serving includes TensorFlow and the target `ops_lib` of the TensorFlow Text release in its workspace.bzl:
2.7.3 in TensorFlow Serving 2.10, 2.8.2 in 2.11, 2.12.1 from 2.12 to 2.19, 2.20.0 since 2.20. The lists of TensorFlow's
own operations come from the packages 2.12.1, 2.20.0 and 2.21.0.
"""

VERSIONS = tuple(f"2.{minor}" for minor in range(10, 22))
DEFAULT_VERSIONS = VERSIONS[VERSIONS.index("2.12") :]

# Operation of TensorFlow Text -> the first TensorFlow Serving that includes it.
_TEXT_SINCE = {
    10: """
    ConstrainedSequence FastWordpieceTokenizeWithOffsets TFText>FastWordpieceDetokenize MaxSpanningTree CaseFoldUTF8
    FindSourceOffsets NormalizeUTF8 NormalizeUTF8WithOffsetsMap RegexSplitWithOffsets SentenceFragments
    SentenceFragmentsV2 SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceOp SentencepieceStringToIdOp
    SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp TokenizerFromLogits
    SplitMergeTokenizeWithOffsets UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets
    TFText>WhitespaceTokenizeWithOffsetsV2 WordpieceTokenizeWithOffsets
    """,
    12: """
    FastBertNormalize TFText>BoiseTagsToOffsets TFText>OffsetsToBoiseTags TFText>ByteSplitByOffsets
    TFText>ByteSplitWithOffsets TFText>FastSentencepieceDetokenize TFText>FastSentencepieceTokenize
    TFText>NgramsStringJoin PhraseTokenize TFText>PhraseDetokenize
    """,
    20: "TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim TFText>Utf8Binarize",
}
TEXT_SINCE = {operation: minor for minor, names in _TEXT_SINCE.items() for operation in names.split()}

# Operations of TensorFlow 2.20 that 2.12 lacks, except for those for TPUs. Each came with a version between the two.
_NEWER_THAN_2_12 = """
    CalibrationStatisticsSaver CheckPinned CollectiveAllToAllV2 Conv DatasetFingerprint DebugIdentityV3 DecodeWebP
    DumpTensor FFTND GlobalIterId GlobalShuffleDataset IFFTND IndexFlatMapDataset IRFFTND IteratorGetModelProto
    ListSnapshotChunksDataset RaggedFillEmptyRows RaggedFillEmptyRowsGrad RelayoutLike RFFTND SegmentMaxV2 SegmentMinV2
    SnapshotChunkDataset SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2 StochasticCastToInt
    TFRecordDatasetV2 WeightedFlatMapDataset XlaLaunchV2 _QuantizedMatMul
"""
NEWER_THAN_2_12 = frozenset(_NEWER_THAN_2_12.split())
NEWER_THAN_2_20 = frozenset(["DecodeJxl"])

# Operation -> the last minor version that certainly lacks it, and the last that may lack it.
LAST_WITHOUT = {
    **{operation: (minor - 1, minor - 1) for operation, minor in TEXT_SINCE.items()},
    **dict.fromkeys(NEWER_THAN_2_12, (12, 19)),
    **dict.fromkeys(NEWER_THAN_2_20, (20, 20)),
}

# These run a function of the Python process that made the graph.
PYTHON_OPERATIONS = frozenset(["PyFunc", "PyFuncStateless", "EagerPyFunc"])
# TensorFlow Decision Forests, which stock servers include too.
FOREST_PREFIX = "SimpleML"
