//! Files in, desired state and findings out.
