//! What is compiled in is what lies in `examples-repo/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nodewright::manifest::{self, Layout};

#[test]
fn every_file_of_the_examples_is_compiled_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples-repo");
    let mut found = BTreeMap::new();
    collect(&root, &root, &mut found);
    let compiled: BTreeMap<String, String> = nodewright::cli::example_files()
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    assert_eq!(compiled, found, "src/cli/demo/examples.rs lists every file");
}

#[test]
fn the_examples_are_valid_without_a_remark() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples-repo");
    let (files, problems) = manifest::read_folder(&root);
    let layout = Layout { cluster: Some("demo".to_owned()), path: String::new() };
    let parsed = manifest::read(&files, &problems, &layout);
    assert_eq!(parsed.findings, []);
    let names: Vec<&String> = parsed.nodewrights.keys().collect();
    assert_eq!(names, ["general", "h200-train"]);
}

fn collect(root: &Path, folder: &Path, into: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, into);
        } else {
            let name = path.strip_prefix(root).expect("below the root").to_str().expect("text");
            into.insert(name.to_owned(), fs::read_to_string(&path).expect("text"));
        }
    }
}
