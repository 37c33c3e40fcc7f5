//! The loop: one level-triggered tick, wake-ups, leadership, health and metrics.
