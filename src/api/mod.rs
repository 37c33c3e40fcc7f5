//! The custom resources and annotations exactly as users and the cluster see them.
