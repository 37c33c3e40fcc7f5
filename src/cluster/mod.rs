//! The Kubernetes edge: watch, observe, act.
