//! One file per verb; the only place that prints, reads the environment, or wires things together.
