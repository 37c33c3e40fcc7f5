//! Custom resources: bounds, defaults, generated files current.

mod bounds;
mod durations;
mod manifests;
mod refusals;
