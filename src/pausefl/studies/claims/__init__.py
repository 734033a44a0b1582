"""The paper's claims, judged by runs: what was tested, what was measured, and whether it holds."""

from __future__ import annotations

from pausefl.studies.claims.claim import Claim, Finding, Verdict
from pausefl.studies.claims.measurement_claims import MEASURED
from pausefl.studies.claims.page import claims_page
from pausefl.studies.claims.training_claims import TRAINED

CLAIMS: tuple[Claim, ...] = (*TRAINED, *MEASURED)

__all__ = ["CLAIMS", "Claim", "Finding", "Verdict", "claims_page"]
