//! Custom resources: bounds, defaults, generated files current.
