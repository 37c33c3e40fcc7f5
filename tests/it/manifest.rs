//! Files in, desired state and findings out.

mod bad;
mod folder;
mod good;
mod layers;
mod legacy;
mod live;
mod properties;
mod revision;

use std::path::PathBuf;

use nodewright::manifest::{Layout, Parsed, SourceFile, read};

/// Returns a folder of the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns files from their paths and texts.
fn files(given: &[(&str, &str)]) -> Vec<SourceFile> {
    given
        .iter()
        .map(|(path, text)| SourceFile {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
        })
        .collect()
}

/// Reads files that need no cluster.
fn parsed(given: &[(&str, &str)]) -> Parsed {
    read(&files(given), &[], &Layout::default())
}

/// Reads files for the cluster `prod`.
fn parsed_for_prod(given: &[(&str, &str)]) -> Parsed {
    let layout = Layout { cluster: Some("prod".to_owned()), path: String::new() };
    read(&files(given), &[], &layout)
}

/// Returns findings as `code place`, in their order.
fn codes(parsed: &Parsed) -> Vec<String> {
    parsed.findings.iter().map(|finding| format!("{} {}", finding.code, finding.place())).collect()
}

/// Returns the names of the accepted resources.
fn names(parsed: &Parsed) -> Vec<&str> {
    parsed.nodewrights.keys().map(String::as_str).collect()
}

/// Returns the refused objects as `Kind name`.
fn refused(parsed: &Parsed) -> Vec<String> {
    parsed.refused.iter().map(ToString::to_string).collect()
}

/// Returns a small resource with one package in a version.
fn resource(name: &str, version: &str) -> String {
    format!(
        "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata:\n  name: {name}\n\
         spec:\n  nodeSelectors:\n    matchLabels:\n      nodepool: gpu\n  packages:\n    tuning:\n\
         \x20     version: {version}\n      image: ghcr.io/nvidia/nodewright-packages/tuning\n"
    )
}
