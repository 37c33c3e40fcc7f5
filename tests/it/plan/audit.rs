//! The audit: a clean plan passes, and each invariant broken by itself is reported.
