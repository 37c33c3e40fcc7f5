//! Layout and overlays: which files reach a cluster, and how one document changes another.

use super::{codes, names, parsed_for_prod, refused, resource};
use nodewright::manifest::{Layout, Parsed, read};
use serde_json::{Value, json};

const CLUSTER: &str = "apiVersion: nodewright.dev/v1\nkind: Cluster\nuses: [train]\n";

/// Reads a base and an overlay of it.
fn layered(base: &str, overlay: &str) -> Parsed {
    parsed_for_prod(&[
        ("clusters/prod/cluster.yaml", CLUSTER),
        ("clusters/prod/over.yaml", overlay),
        ("base/train/base.yaml", base),
    ])
}

fn overlay(spec: &str) -> String {
    format!(
        "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata:\n  name: a\n\
         spec:\n{spec}"
    )
}

#[test]
fn a_cluster_gets_its_own_folder_and_the_pools_it_uses() {
    let parsed = parsed_for_prod(&[
        ("clusters/prod/cluster.yaml", CLUSTER),
        ("clusters/prod/deep/er/own.yaml", &resource("own", "1.0.0")),
        ("clusters/dev/other.yaml", &resource("dev", "1.0.0")),
        ("base/train/a.yaml", &resource("train", "1.0.0")),
        ("base/unused/b.yaml", &resource("unused", "1.0.0")),
        ("loose.yaml", &resource("loose", "1.0.0")),
        ("clusters/prod/.hidden/c.yaml", &resource("hidden", "1.0.0")),
        ("clusters/prod/kustomization.yaml", "resources: [a.yaml]\n"),
    ]);
    assert_eq!(names(&parsed), ["own", "train"]);
    assert_eq!(codes(&parsed), Vec::<String>::new());
}

#[test]
fn the_layout_may_be_below_a_path() {
    let layout = Layout { cluster: Some("prod".to_owned()), path: "fleet/gpu".to_owned() };
    let files = super::files(&[
        ("fleet/gpu/clusters/prod/cluster.yaml", CLUSTER),
        ("fleet/gpu/base/train/a.yaml", &resource("a", "1.0.0")),
        ("clusters/prod/wrong.yaml", &resource("wrong", "1.0.0")),
    ]);
    let parsed = read(&files, &[], &layout);
    assert_eq!(names(&parsed), ["a"]);
}

#[test]
fn an_unknown_cluster_lists_those_there_are() {
    let files = super::files(&[("clusters/prod-a/x.yaml", ""), ("clusters/prod-b/x.yaml", "")]);
    for (cluster, way_out) in [
        (Some("prod-c"), "name prod-a if that is what you mean; there are prod-a, prod-b"),
        (Some("other"), "name one of prod-a, prod-b, or add the folder"),
        (None, "name one with --cluster: prod-a, prod-b"),
    ] {
        let layout = Layout { cluster: cluster.map(str::to_owned), path: String::new() };
        let parsed = read(&files, &[], &layout);
        assert_eq!(codes(&parsed), ["NW0181 clusters"]);
        assert_eq!(parsed.findings[0].way_out, way_out);
        assert!(parsed.unreadable, "nothing is removed because of a wrong name");
    }
}

#[test]
fn cluster_yaml_is_checked_like_any_other_file() {
    let table = [
        ("kind: Cluster\nuses: [train]\n", "NW0132 clusters/prod/cluster.yaml:1:1"),
        (
            "apiVersion: nodewright.dev/v1\nkind: Cluster\nuse: [train]\n",
            "NW0131 clusters/prod/cluster.yaml:3:1",
        ),
        (
            "apiVersion: nodewright.dev/v1\nkind: Cluster\nmetadata: {name: dev}\n",
            "NW0184 clusters/prod/cluster.yaml:3:18",
        ),
        (
            "apiVersion: nodewright.dev/v1\nkind: Cluster\nuses: [../../etc]\n",
            "NW0137 clusters/prod/cluster.yaml:3:8",
        ),
        ("{", "NW0111 clusters/prod/cluster.yaml:2:1"),
        ("", "NW0182 clusters/prod/cluster.yaml"),
    ];
    for (text, expected) in table {
        let parsed = parsed_for_prod(&[
            ("clusters/prod/cluster.yaml", text),
            ("base/train/a.yaml", &resource("a", "1.0.0")),
        ]);
        assert_eq!(codes(&parsed), [expected], "{text}");
        assert!(parsed.unreadable);
    }
    let parsed = parsed_for_prod(&[("clusters/prod/a.yaml", &resource("a", "1.0.0"))]);
    assert_eq!(codes(&parsed), ["NW0182 clusters/prod/cluster.yaml"]);
}

#[test]
fn a_pool_that_is_not_there_stops_removals_and_overlays_without_base() {
    let parsed = parsed_for_prod(&[
        ("clusters/prod/cluster.yaml", &CLUSTER.replace("train", "trian")),
        ("clusters/prod/a.yaml", &overlay("  priority: 5\n")),
        ("base/train/a.yaml", &resource("a", "1.0.0")),
    ]);
    assert_eq!(
        codes(&parsed),
        ["NW0128 clusters/prod/a.yaml:1:1", "NW0183 clusters/prod/cluster.yaml:3:8",]
    );
    assert_eq!(
        parsed.findings[1].way_out,
        "write train if that is what you mean, or add the folder"
    );
    assert_eq!(refused(&parsed), ["NodeWright a"]);
    assert!(parsed.unreadable);
}

#[test]
fn overlays_merge_as_json_merge_patches() {
    let base = resource("a", "1.0.0");
    let table = [
        ("  priority: 5\n", "/spec/priority", json!(5)),
        ("  nodeSelectors: {matchLabels: {zone: b}}\n", "/spec/nodeSelectors/matchLabels", {
            json!({"nodepool": "gpu", "zone": "b"})
        }),
        (
            "  nodeSelectors: {matchLabels: {nodepool: null, zone: b}}\n",
            { "/spec/nodeSelectors/matchLabels" },
            json!({"zone": "b"}),
        ),
        ("  packages: {tuning: null}\n", "/spec/packages", Value::Null),
        ("  packages: {tuning: {version: 2.0.0}}\n", "/spec/packages/tuning/version", {
            json!("2.0.0")
        }),
        ("  packages: {tuning: {version: 2.0.0}}\n", "/spec/packages/tuning/image", {
            json!("ghcr.io/nvidia/nodewright-packages/tuning")
        }),
        (
            "  packages: {bc: {version: 1.0.0, image: x, env: null}}\n",
            "/spec/packages/bc/version",
            { json!("1.0.0") },
        ),
    ];
    for (spec, pointer, expected) in table {
        let parsed = layered(&base, &overlay(spec));
        assert!(!parsed.has_errors(), "{spec}: {:?}", parsed.findings);
        let object = serde_json::to_value(&parsed.nodewrights["a"].object).expect("plain JSON");
        let found = object.pointer(pointer).cloned().unwrap_or(Value::Null);
        assert_eq!(found, expected, "{spec}");
    }
}

#[test]
fn lists_replace() {
    let key =
        |name: &str| format!("  additionalTolerations: [{{key: {name}, operator: Exists}}]\n");
    let base = format!("{}{}", resource("a", "1.0.0"), key("old"));
    let parsed = layered(&base, &overlay(&key("new")));
    let tolerations = &parsed.nodewrights["a"].object.spec.additional_tolerations;
    assert_eq!(tolerations.len(), 1);
    assert_eq!(tolerations[0].key.as_deref(), Some("new"));
}

#[test]
fn findings_point_into_the_file_where_the_value_was_written() {
    let base = resource("a", "1.0.0").replace("image:", "imgae:");
    let parsed = layered(&base, &overlay("  priority: 0\n  interruptionBudget: {percent: 200}\n"));
    assert_eq!(
        codes(&parsed),
        [
            "NW0132 base/train/base.yaml:10:5",
            "NW0131 base/train/base.yaml:12:7",
            "NW0136 clusters/prod/over.yaml:6:13",
            "NW0136 clusters/prod/over.yaml:7:33",
        ]
    );
    assert_eq!(refused(&parsed), ["NodeWright a"]);
}

#[test]
fn the_same_object_twice_in_a_layer_refuses_it_whatever_the_other_layer_says() {
    let parsed = parsed_for_prod(&[
        ("clusters/prod/cluster.yaml", &CLUSTER.replace("[train]", "[train, extra]")),
        ("clusters/prod/over.yaml", &overlay("  priority: 5\n")),
        ("base/train/a.yaml", &resource("a", "1.0.0")),
        ("base/extra/a.yaml", &resource("a", "2.0.0")),
    ]);
    assert_eq!(codes(&parsed), ["NW0127 base/extra/a.yaml:1:1", "NW0127 base/train/a.yaml:1:1"]);
    assert_eq!(names(&parsed), [""; 0]);
    assert_eq!(refused(&parsed), ["NodeWright a"]);
    assert!(!parsed.unreadable, "everything could be read");
}

/// A base without its overlay would be another version on the nodes.
#[test]
fn a_base_waits_for_an_overlay_that_cannot_be_read() {
    let two = format!("{}---\n{}", resource("a", "1.0.0"), resource("b", "1.0.0"));
    let named = layered(&two, &format!("{}\tx: 1\n", overlay("  priority: 5\n")));
    assert_eq!(names(&named), ["b"], "the broken overlay says that it is about a");
    assert!(refused(&named).contains(&"NodeWright a".to_owned()));

    let foreign = layered(&two, "kind: ConfigMap\nmetadata:\n  name: a\nx: {\n");
    assert_eq!(names(&foreign), ["a", "b"], "it is about neither of them");
    assert!(foreign.unreadable);

    let nameless = layered(&two, "\t{");
    assert_eq!(names(&nameless), [""; 0], "it may be about any of them");
    assert_eq!(refused(&nameless), ["NodeWright a", "NodeWright b"]);
}

/// An overlay without its base would be a resource without packages.
#[test]
fn an_overlay_waits_for_a_base_that_cannot_be_read() {
    for base in ["\t{".to_owned(), format!("{}\tx: 1\n", resource("a", "1.0.0"))] {
        let parsed = layered(&base, &overlay("  priority: 5\n"));
        assert_eq!(names(&parsed), [""; 0]);
        assert!(refused(&parsed).contains(&"NodeWright a".to_owned()));
        assert!(parsed.unreadable);
    }
}

#[test]
fn an_overlay_with_a_slip_in_its_name_is_warned_of() {
    let parsed = layered(
        &resource("train", "1.0.0"),
        &overlay("  nodeSelectors: {matchLabels: {a: b}}\n").replace("name: a", "name: trian"),
    );
    assert_eq!(codes(&parsed), ["NW0185 clusters/prod/over.yaml:4:9"]);
    assert_eq!(parsed.findings[0].way_out, "write train if that is what you mean, or add packages");
}
