//! The configuration repository that the demo starts from, compiled in.

/// Every file of `examples-repo/`, by its path there; a test compares the two.
pub(super) const FILES: [(&str, &str); 5] = [
    ("README.md", include_str!("../../../examples-repo/README.md")),
    (H200_TRAIN, include_str!("../../../examples-repo/base/h200-train/h200-train.yaml")),
    (GENERAL, include_str!("../../../examples-repo/base/general/general.yaml")),
    (
        "clusters/demo/cluster.yaml",
        include_str!("../../../examples-repo/clusters/demo/cluster.yaml"),
    ),
    (
        "clusters/demo/h200-train.yaml",
        include_str!("../../../examples-repo/clusters/demo/h200-train.yaml"),
    ),
];

/// The manifest of the training pool.
pub(super) const H200_TRAIN: &str = "base/h200-train/h200-train.yaml";

/// The manifest of the general pool.
pub(super) const GENERAL: &str = "base/general/general.yaml";
