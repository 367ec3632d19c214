//! Detectors: what guardrails look for in arguments and results.
