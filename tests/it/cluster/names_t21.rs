//! T21: names of everything we make fit, differ, and are the same in two runs.

use std::collections::BTreeSet;

use nodewright::cluster::executor::build;
use nodewright::cluster::names::node_metadata_name;
use nodewright::model::{ExecutorSpec, Interrupt, InterruptKind, Package, Stage, Work};

use super::{eight, executor_spec, install, package, settings};

fn nodes() -> Vec<String> {
    let alike = "a".repeat(80);
    vec![
        "abc-ddddddd-eeeeeee.ff.gg.hhhhhhhh.net".to_owned(),
        format!("{}.{}.{}.{}", "n".repeat(63), "o".repeat(63), "p".repeat(63), "q".repeat(61)),
        format!("{alike}-one"),
        format!("{alike}-two"),
        "k8s-master00000e".to_owned(),
    ]
}

fn packages() -> Vec<Package> {
    let named = |name: &str, version: &str| Package {
        name: name.to_owned(),
        version: version.parse().expect("a version"),
        ..package()
    };
    let long = "a".repeat(63);
    vec![named(&long, "1.2.3"), named(&long, "1.2.3+build.7"), named("a", "1.2.3")]
}

fn works(package: &Package) -> Vec<Work> {
    let interrupt = Interrupt { kind: InterruptKind::Reboot, services: Vec::new() };
    let package = package.clone();
    vec![
        Work::Pull { package: package.clone() },
        Work::Uninstall { package: package.clone() },
        Work::Install { package: package.clone(), stages: vec![Stage::Apply, Stage::Config] },
        Work::Interrupt { package: package.clone(), interrupt },
        Work::Verify { package },
    ]
}

fn specs() -> Vec<ExecutorSpec> {
    let mut specs = Vec::new();
    for (number, node) in nodes().into_iter().enumerate() {
        for package in packages() {
            for work in works(&package) {
                let mut spec = executor_spec(install());
                spec.visit.node = node.clone();
                spec.visit.node_uid = format!("6c3d5a0e-0000-4000-8000-{number:012}");
                spec.snapshot = package.snapshot_name("gpu");
                spec.work = work;
                specs.push(spec);
            }
        }
    }
    specs
}

fn is_label(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[test]
fn t21_names_fit_and_differ_and_are_the_same_again() {
    let mut names = BTreeSet::new();
    for spec in specs() {
        let pod = build(&spec, &settings(), eight());
        assert_eq!(pod, build(&spec, &settings(), eight()), "two runs give one pod");
        let name = pod.metadata.name.clone().expect("a name");
        assert!(is_label(&name), "{name}");
        assert!(names.insert(name.clone()), "{name} stands for two executors");
        for (key, value) in pod.metadata.labels.clone().expect("labels") {
            assert!(is_label_value(&value), "{key}={value}");
        }
        let pod_spec = pod.spec.expect("a spec");
        let init = pod_spec.init_containers.unwrap_or_default();
        let mut inside = BTreeSet::new();
        for container in init.iter().chain(&pod_spec.containers) {
            assert!(is_label(&container.name), "{}", container.name);
            assert!(inside.insert(container.name.clone()), "{} twice", container.name);
        }
        let mut volumes = BTreeSet::new();
        for volume in pod_spec.volumes.unwrap_or_default() {
            assert!(is_label(&volume.name), "{}", volume.name);
            assert!(volumes.insert(volume.name.clone()), "{} twice", volume.name);
        }
    }
    let metadata: BTreeSet<String> =
        nodes().iter().map(|node| node_metadata_name("gpu", node)).collect();
    assert_eq!(metadata.len(), nodes().len());
    assert!(metadata.iter().all(|name| name.len() <= 253 && is_label_like(name)), "{metadata:?}");
}

fn is_label_like(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(name.chars().next()) && edge(name.chars().last())
}
