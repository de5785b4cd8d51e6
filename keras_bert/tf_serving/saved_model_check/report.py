"""The findings of the check of a SavedModel, and how they print."""

import dataclasses
import functools
import json

# Requests fail, or answers are wrong.
ERROR = "error"
# Requests fail, or answers are wrong, in some configurations of a server.
WARNING = "warning"
_SEVERITIES = (ERROR, WARNING)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One problem.

    Attributes:
        severity: `ERROR` or `WARNING`.
        trap: a short name of the problem; docs/serving_run.md lists all names.
        where: the signature, tensor, operation or file.
        happens: the problem, and its consequence in TensorFlow Serving.
        remedy: the advice to the user.
    """

    severity: str
    trap: str
    where: str
    happens: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.trap}, {self.where}\n  {self.happens}\n  Do: {self.remedy}"


# Functions from (trap, where, happens, remedy) to a finding.
error, warning = (functools.partial(Finding, severity) for severity in _SEVERITIES)


@dataclasses.dataclass(frozen=True)
class Report:
    """All findings about one SavedModel, the most severe first.

    Attributes:
        path: the checked folder, one version.
        serving_versions: the versions of TensorFlow Serving that it was checked for.
        findings: the findings.
        text_operations: the operations of TensorFlow Text in the model; None if it could not be read.
    """

    path: str
    serving_versions: tuple[str, ...]
    findings: tuple[Finding, ...]
    text_operations: tuple[str, ...] | None = None

    @property
    def errors(self) -> list[Finding]:
        return self._of(ERROR)

    @property
    def warnings(self) -> list[Finding]:
        return self._of(WARNING)

    def is_clean(self, strict: bool = False) -> bool:
        """Returns whether there is no error and, if `strict`, no warning either."""
        return not self.errors and not (strict and self.warnings)

    def to_json(self) -> str:
        """Returns the report as JSON: its fields by name, including the list of findings."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    def __str__(self) -> str:
        counts = ", ".join(
            f"{len(found)} {name}{'' if len(found) == 1 else 's'}"
            for name, found in (("error", self.errors), ("warning", self.warnings))
        )
        versions = f"TensorFlow Serving {self.serving_versions[0]} to {self.serving_versions[-1]}"
        if len(self.serving_versions) == 1:
            versions = f"TensorFlow Serving {self.serving_versions[0]}"
        summary = f"{self.path}: {counts}, for {versions}"
        if self.text_operations is not None:
            summary += f"; needs of TensorFlow Text: {', '.join(self.text_operations) or 'nothing'}"
        return "\n\n".join([*map(str, self.findings), summary])

    def _of(self, severity: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == severity]


def sorted_findings(findings) -> tuple[Finding, ...]:
    """Returns the findings ordered by severity, errors first. Equally severe ones keep their order."""
    return tuple(sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity)))
