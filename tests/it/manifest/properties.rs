//! What holds for every input: no panic, bounded output, overlays as RFC 7386 has them.

use nodewright::manifest::{FINDINGS_MAX, Layout, SourceFile, read};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{parsed, parsed_for_prod};

fn read_bytes(bytes: Vec<u8>) {
    let file = SourceFile { path: "a.yaml".to_owned(), bytes };
    let first = read(std::slice::from_ref(&file), &[], &Layout::default());
    assert!(first.findings.len() <= FINDINGS_MAX);
    assert_eq!(first, read(&[file], &[], &Layout::default()), "reading again gives the same");
}

/// Pieces that make nearly valid manifests.
fn piece() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "apiVersion: nodewright.nvidia.com/v1alpha1\n",
        "kind: NodeWright\n",
        "kind: DeploymentPolicy\n",
        "metadata:\n",
        "  name: a\n",
        "spec:\n",
        "  packages:\n",
        "    tuning:\n",
        "      version: ",
        "1.10\n",
        "\"1.0.0\"\n",
        "      dependsOn: {tuning: 1.0.0}\n",
        "  default: {budget: {count: 1}}\n",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "- ",
        "? ",
        ": ",
        "&a ",
        "*a ",
        "!!str ",
        "! ",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\t",
        "# x\n",
        "\n",
        "\r",
        "  ",
        "\u{feff}",
        "ä",
        "\0",
        "<<: *a\n",
    ])
    .prop_map(str::to_owned)
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0_i64..9).prop_map(|number| json!(number)),
        "[a-c]{0,2}".prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn with_annotations(annotations: &Value) -> String {
    json!({
        "apiVersion": "nodewright.nvidia.com/v1alpha1",
        "kind": "NodeWright",
        "metadata": {"name": "a", "annotations": annotations},
        "spec": {"nodeSelectors": {"matchLabels": {"nodepool": "gpu"}}},
    })
    .to_string()
}

fn texts() -> impl Strategy<Value = Value> {
    let value = prop_oneof![Just(Value::Null), "[a-c]{0,2}".prop_map(Value::String)];
    prop::collection::btree_map("[a-c]{1,2}", value, 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>()))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        read_bytes(bytes);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        read_bytes(text.into_bytes());
    }

    #[test]
    fn nearly_valid_manifests_never_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        read_bytes(pieces.concat().into_bytes());
    }

    #[test]
    fn any_specification_is_read_or_refused(spec in json_value()) {
        let text = json!({
            "apiVersion": "nodewright.nvidia.com/v1alpha1",
            "kind": "NodeWright",
            "metadata": {"name": "a"},
            "spec": spec,
        });
        let parsed = parsed(&[("a.json", &text.to_string())]);
        prop_assert_eq!(parsed.nodewrights.len() + parsed.refused.len(), 1);
        prop_assert_eq!(parsed.has_errors(), !parsed.refused.is_empty());
    }

    #[test]
    fn overlays_are_merge_patches(base in texts(), patch in texts()) {
        let cluster = "apiVersion: nodewright.dev/v1\nkind: Cluster\nuses: [train]\n";
        let parsed = parsed_for_prod(&[
            ("clusters/prod/cluster.yaml", cluster),
            ("clusters/prod/a.json", &with_annotations(&patch)),
            ("base/train/a.json", &with_annotations(&base)),
        ]);
        let mut expected = base;
        json_patch::merge(&mut expected, &patch);
        let is_sound = expected.as_object().expect("a map").values().all(Value::is_string);
        prop_assert_eq!(parsed.nodewrights.contains_key("a"), is_sound);
        if is_sound {
            let found = &parsed.nodewrights["a"].object.metadata.annotations;
            let found = serde_json::to_value(found.clone().unwrap_or_default()).expect("JSON");
            prop_assert_eq!(found, expected);
        }
    }
}
