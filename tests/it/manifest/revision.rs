//! Whole revisions: documents do not hide each other, units hold together, output is bounded.

use super::{codes, names, parsed, refused, resource};
use nodewright::manifest::{FINDINGS_MAX, Rule};
use nodewright::model::Severity;

#[test]
fn documents_around_a_broken_one_count() {
    for broken in
        ["a: \"open\n", "a:\n\tb: 1\n", "a: [1\n", "*unknown\n", "a: b: c\n", "- a\nb: c\n"]
    {
        let text = format!(
            "{}---\n{broken}---\n{}...\n{}",
            resource("a", "1.0.0"),
            resource("b", "1.0.0"),
            resource("c", "1.0.0")
        );
        let parsed = parsed(&[("a.yaml", &text)]);
        assert_eq!(names(&parsed), ["a", "b", "c"], "{broken:?}");
        assert_eq!(parsed.findings.len(), 1, "{broken:?}: {:?}", parsed.findings);
        let line = parsed.findings[0].line.expect("it has a line");
        assert!((14..=16).contains(&line), "{broken:?} is in line {line}");
        assert!(parsed.unreadable);
    }
}

#[test]
fn an_anchor_ends_with_its_document() {
    let text = "a: &x 1\n---\nb: *x\n";
    let parsed = parsed(&[("a.yaml", text)]);
    assert!(codes(&parsed).contains(&"NW0111 a.yaml:3:4".to_owned()), "{:?}", codes(&parsed));
}

#[test]
fn a_marker_inside_text_is_text_when_it_is_indented() {
    let text = format!(
        "{}      configMap:\n        a.txt: |\n          ---\n          x\n",
        resource("a", "1.0.0")
    );
    let parsed = parsed(&[("a.yaml", &text)]);
    assert_eq!(codes(&parsed), Vec::<String>::new());
    let packages = &parsed.nodewrights["a"].object.spec.packages;
    assert_eq!(packages["tuning"].config_map["a.txt"], "---\nx\n");
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_read() {
    let text = format!("\u{feff}{}", resource("a", "1.10").replace('\n', "\r\n"));
    let parsed = parsed(&[("a.yaml", &text)]);
    assert_eq!(codes(&parsed), ["NW0134 a.yaml:11:16"]);
}

#[test]
fn columns_count_characters() {
    let text = resource("a", "1.0.0").replace("nodepool: gpu", "{ä: 1}");
    let parsed = parsed(&[("a.yaml", &text)]);
    assert!(codes(&parsed).contains(&"NW0133 a.yaml:8:11".to_owned()), "{:?}", codes(&parsed));
}

#[test]
fn what_is_not_ours_is_noted_and_left_alone() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: !!binary x\n";
    let parsed = parsed(&[
        ("service.yaml", service),
        ("values.yaml", "replicas: 1\nbase: &b {x: 1}\nother: {<<: *b}\n"),
        ("notes.yaml", "just text\n"),
        ("a.yaml", &resource("a", "1.0.0")),
    ]);
    assert_eq!(names(&parsed), ["a"]);
    assert_eq!(
        codes(&parsed),
        ["NW0121 notes.yaml:1:1", "NW0122 service.yaml:1:1", "NW0121 values.yaml:1:1",]
    );
    assert!(parsed.findings.iter().all(|finding| finding.severity == Severity::Note));
    assert!(!parsed.unreadable, "what is skipped on purpose stops no removal");
    assert_eq!(parsed.foreign.len(), 1);
    assert_eq!(parsed.foreign[0].name.as_deref(), Some("web"));
}

#[test]
fn a_policy_waits_for_the_only_resource_that_names_it() {
    let policy = "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\n\
                  metadata: {name: slow}\nspec: {default: {budget: {count: 1}}}\n";
    let bad = format!("{}  deploymentPolicy: slow\n", resource("bad", "latest"));
    let alone = parsed(&[("bad.yaml", &bad), ("slow.yaml", policy)]);
    assert_eq!(refused(&alone), ["DeploymentPolicy slow", "NodeWright bad"]);
    assert_eq!(codes(&alone), ["NW0141 bad.yaml:11:16", "NW0168 slow.yaml:1:1"]);

    let good = format!("{}  deploymentPolicy: slow\n", resource("good", "1.0.0"));
    let shared = parsed(&[("bad.yaml", &bad), ("good.yaml", &good), ("slow.yaml", policy)]);
    assert_eq!(refused(&shared), ["NodeWright bad"]);
    assert_eq!(names(&shared), ["good"]);
    assert!(shared.policies.contains_key("slow"));
}

#[test]
fn findings_are_bounded_and_say_how_many_are_left_out() {
    let mut text = resource("a", "1.0.0");
    for number in 0..500 {
        text.push_str(&format!("  unknown{number}: 1\n"));
    }
    let notes = "x: 1\n---\n".repeat(50);
    let parsed = parsed(&[("a.yaml", &notes), ("b.yaml", &text)]);
    assert_eq!(parsed.findings.len(), FINDINGS_MAX);
    let last = parsed.findings.last().expect("there are some");
    assert_eq!(last.code, Rule::MoreFindings.code());
    assert_eq!(last.severity, Severity::Error);
    assert_eq!(last.message, "and 351 more findings, 301 of them errors");
}

#[test]
fn too_many_entries_are_refused() {
    let mut text = resource("a", "1.0.0");
    for number in 0..65 {
        text.push_str(&format!("    p{number}q:\n      version: 1.0.0\n      image: x\n"));
    }
    let found = parsed(&[("a.yaml", &text)]);
    assert_eq!(codes(&found), ["NW0138 a.yaml:9:3"]);
}

#[test]
fn findings_quote_little_and_no_control_characters() {
    let long = "1_".repeat(10_000);
    let text = resource("a", "1.0.0").replace("nodepool: gpu", &format!("nodepool: {long}"));
    let text = text.replace("image:", "\"\\e[2J\\u0007\":");
    let found = parsed(&[("a.yaml", &text)]);
    assert!(found.findings.len() >= 3, "{found:?}");
    for finding in &found.findings {
        for text in [&finding.message, &finding.way_out, &finding.path.clone().unwrap_or_default()]
        {
            assert!(text.len() <= 1_024 && !text.contains(char::is_control), "{text:?}");
        }
    }
}

/// The shape that is quadratic, or deeper than the stack, in careless readers.
#[test]
fn hostile_shapes_end_quickly() {
    let chain: String = (1..20_000).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let keys: String = (0..60_000).map(|n| format!("k{n}: 1\n")).collect();
    let shapes = [
        format!("a0: &a0 []\n{chain}"),
        keys,
        "- ".repeat(200_000),
        "[".repeat(400_000),
        "{a: ".repeat(100_000),
        "? ".repeat(100_000),
        "&a ".repeat(1_000),
        format!("a: {}", "x ".repeat(400_000)),
        "---\n".repeat(200_000),
        format!("{{{}}}", "a,".repeat(400_000)),
        format!("\"{}", "a\n\n".repeat(300_000)),
        "%TAG !a! b\n".repeat(80_000),
        "a:\n ".repeat(200_000),
        (0..1_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect(),
    ];
    for shape in shapes {
        let parsed = parsed(&[("a.yaml", &shape)]);
        assert_eq!(names(&parsed), [""; 0]);
    }
}
