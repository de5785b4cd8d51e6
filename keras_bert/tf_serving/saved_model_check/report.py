"""The findings of the check of a SavedModel, and how they print."""

import dataclasses
import functools

# The model does not load, or requests fail.
ERROR = "error"
# The same, or answers are wrong, in some versions or configurations of a server.
WARNING = "warning"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One problem.

    Attributes:
        severity: `ERROR` or `WARNING`.
        trap: a short name of the problem; docs/serving_run.md lists all names.
        where: the operation or the signature.
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
error, warning = (functools.partial(Finding, severity) for severity in (ERROR, WARNING))


@dataclasses.dataclass(frozen=True)
class Report:
    """All findings about one SavedModel.

    Attributes:
        path: the checked folder, one version.
        serving_versions: the versions of TensorFlow Serving that it was checked for.
        findings: the findings, errors first.
        text_operations: the operations of TensorFlow Text in the model.
    """

    path: str
    serving_versions: tuple[str, ...]
    findings: tuple[Finding, ...]
    text_operations: tuple[str, ...]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == WARNING]

    def is_clean(self, strict: bool = False) -> bool:
        """Returns whether there is no error and, if `strict`, no warning either."""
        return not (self.findings if strict else self.errors)

    def __str__(self) -> str:
        text_operations = ", ".join(self.text_operations) or "nothing"
        summary = (
            f"{self.path}: {len(self.errors)} error(s), {len(self.warnings)} warning(s), for TensorFlow Serving "
            f"{', '.join(self.serving_versions)}; needs of TensorFlow Text: {text_operations}"
        )
        return "\n\n".join([*map(str, self.findings), summary])
