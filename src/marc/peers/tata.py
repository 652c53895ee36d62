"""TaTa is known but not implemented: its equations are not public.

The statistic that it is said to build on is: `marc.peers.distance_covariance`.
"""

from __future__ import annotations

from marc.peers.cards import MethodCard

CARD = MethodCard(
    "tata",
    "distance covariance between images and text over a batch; not implemented",
    factory=None,
    reads_before_writes=None,
    paper="TaTa, ICASSP 2026, arXiv 2601.23253",
    sees="batch",
    paper_says="no training; Brownian distance covariance between visual and textual embeddings, "
    "prompts with attributes, dynamic clustering, refined pseudo-labels",
    released_code="none found",
    ours="equations not public: only an abstract is known, and no code. The statistic it names is "
    "marc.peers.distance_covariance",
    tuned="unknown",
)
