//! Names follow upstream's rule, fit, and differ where what they name does.

use nodewright::cluster::names::{
    container_prefix, executor_name, label_value, node_metadata_name, safe_name, visit_label,
    visit_of_label,
};

use super::{executor_spec, install, interrupt, pull, verify, visit};

#[test]
fn safe_names_follow_upstreams_rule() {
    // SHA-256 of "gpu-kernel-1-4-0-apply-node-1" begins with these digits.
    let name = safe_name(63, &["gpu", "kernel", "1.4.0", "apply", "node.1"]);
    assert_eq!(name, "gpu-kernel-1-4-0-apply-node-1-d97c7fd2");
    let long = safe_name(63, &["A".repeat(80).as_str()]);
    assert_eq!(long.len(), 63);
    assert_eq!(&long[..55], format!("{}-", "a".repeat(54)));
    let other = safe_name(63, &["A".repeat(81).as_str()]);
    assert_ne!(long, other, "the hash is of the whole, not of what is kept");
}

#[test]
fn label_values_are_valid_and_keep_what_is_valid() {
    for kept in ["", "kernel-1.4.0", "a", "node-1.example.com"] {
        assert_eq!(label_value(kept), kept);
    }
    let long = "n".repeat(64);
    for odd in ["kernel-1.4.0+build.7", long.as_str(), "-x", "x-", "mü"] {
        let value = label_value(odd);
        assert!(value.len() <= 63, "{value}");
        assert!(value.starts_with(|c: char| c.is_ascii_alphanumeric()), "{value}");
        assert!(value.ends_with(|c: char| c.is_ascii_alphanumeric()), "{value}");
        assert!(value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{value}");
    }
    assert_ne!(label_value("k-1.0+a"), label_value("k-1.0-a"));
    assert_ne!(label_value("k-1.0+a"), label_value("k-1.0~a"));
}

#[test]
fn executor_names_differ_with_everything_that_makes_another_executor() {
    let name_with = |change: fn(&mut nodewright::model::ExecutorSpec)| {
        let mut spec = executor_spec(install());
        change(&mut spec);
        executor_name(&spec)
    };
    let names = [
        name_with(|_| {}),
        name_with(|spec| spec.attempt = 3),
        name_with(|spec| spec.visit.visit = 4),
        name_with(|spec| spec.visit.node = "gpu-2".to_owned()),
        name_with(|spec| spec.visit.node_uid = "another".to_owned()),
        name_with(|spec| spec.visit.rollout = "cpu".to_owned()),
        name_with(|spec| spec.work = verify()),
        name_with(|spec| spec.work = interrupt()),
        name_with(|spec| spec.work = pull()),
        name_with(|spec| {
            spec.work = pull();
            spec.snapshot = "nw-of-another-target".to_owned();
        }),
    ];
    for (at, name) in names.iter().enumerate() {
        assert!(name.len() <= 63, "{name}");
        assert!(!names[at + 1..].contains(name), "{name} stands for two executors");
    }
    // The same executor has the same name, whatever it is told besides.
    assert_eq!(names[0], name_with(|spec| spec.order = 9));
}

#[test]
fn visits_are_read_back_from_their_label() {
    let label = visit_label(&visit());
    assert_eq!(visit_of_label(&label), Some(3));
    assert_eq!(label.len(), "3-".len() + 8);
    assert_eq!(visit_of_label("3"), None);
    assert_eq!(visit_of_label("x-12345678"), None);
}

#[test]
fn objects_of_upstream_keep_their_names() {
    assert!(node_metadata_name("gpu", "node.1").starts_with("gpu-node-1-metadata-"));
    assert_eq!(container_prefix(&"p".repeat(60)).len(), 43);
}
