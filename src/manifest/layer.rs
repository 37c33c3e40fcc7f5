//! The objects of one layer: which documents are ours, whose they are, which are refused.
//!
//! In: files and what could not be read. Out: objects by kind and name, with their trees.
//! Must never: let one document hide another, or forget that something could not be read.

mod classify;
mod guess;
mod legacy;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::findings::Findings;
use super::layout::LayerFiles;
use super::rules::Rule;
use super::source::is_manifest_name;
use super::source::{FILE_MAX_BYTES, FILES_MAX, Problem, ProblemKind, SourceFile};
use super::tree::{Document, Flaw, Node, parse_file};
use crate::api::crd::Kind;
use crate::model::ObjectRef;

use classify::Class;

/// An object is known by these two.
pub(super) type Identity = (Kind, String);

/// An object of another kind, which is noted and left alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Foreign {
    /// File, relative to the root.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// `apiVersion` as written.
    pub api_version: String,
    /// `kind` as written.
    pub kind: String,
    /// `metadata.name`, where there is one.
    pub name: Option<String>,
}

/// The objects of one layer.
#[derive(Debug, Default)]
pub(super) struct Layer {
    /// Objects that are there once and whose YAML is sound.
    pub objects: BTreeMap<Identity, Rc<Node>>,
    /// Objects that are there, but not in a way that could be used.
    pub refused: BTreeSet<Identity>,
    /// Something could not be read.
    pub unreadable: bool,
    /// Something could not be read, and nobody knows which objects are in it.
    pub lost: bool,
    pub foreign: Vec<Foreign>,
}

/// Returns the reference of an object for a finding.
pub(super) fn reference((kind, name): &Identity) -> ObjectRef {
    ObjectRef { kind: kind.name().to_owned(), name: name.clone() }
}

/// Reads a layer.
pub(super) fn read(sources: &LayerFiles<'_>, findings: &mut Findings) -> Layer {
    let mut layer = Layer::default();
    let paths: BTreeSet<&str> = sources.files.iter().map(|file| file.path.as_str()).collect();
    for problem in &sources.problems {
        layer.problem(problem, &paths, findings);
    }
    let mut found: BTreeMap<Identity, Vec<Rc<Node>>> = BTreeMap::new();
    let manifests = sources.files.iter().filter(|file| is_manifest_name(&file.path));
    for (count, file) in manifests.enumerate() {
        if count == FILES_MAX {
            layer.problem(&too_many(file), &paths, findings);
            break;
        }
        for document in layer.documents(file, findings) {
            if let Some((identity, root)) = layer.document(&document, findings) {
                found.entry(identity).or_default().push(root);
            }
        }
    }
    for (identity, roots) in found {
        layer.object(identity, &roots, findings);
    }
    layer
}

fn too_many(file: &SourceFile) -> Problem {
    Problem { path: file.path.clone(), kind: ProblemKind::TooManyFiles }
}

impl Layer {
    /// Notes something that could not be read, and whose content is therefore unknown.
    fn lose(&mut self) {
        self.unreadable = true;
        self.lost = true;
    }

    fn documents(&mut self, file: &SourceFile, findings: &mut Findings) -> Vec<Document> {
        let SourceFile { path, bytes } = file;
        let size = bytes.len() as u64;
        let kind = if size > FILE_MAX_BYTES {
            ProblemKind::TooLarge { bytes: size }
        } else if bytes.starts_with(b"version https://git-lfs.github.com/spec/") {
            ProblemKind::LfsPointer
        } else {
            match std::str::from_utf8(bytes) {
                // JSON may be indented with tabs, YAML may not; inside JSON's texts there are none.
                Ok(text) if path.ends_with(".json") => {
                    return parse_file(&Rc::from(path.as_str()), &text.replace('\t', " "));
                }
                Ok(text) => return parse_file(&Rc::from(path.as_str()), text),
                Err(error) => {
                    let line = bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
                    let message = format!("the file is not UTF-8 text, see line {}", line + 1);
                    findings.file(Rule::NotText, path, message, "save the file as UTF-8");
                    self.lose();
                    return Vec::new();
                }
            }
        };
        self.problem(&Problem { path: path.clone(), kind }, &BTreeSet::new(), findings);
        Vec::new()
    }

    /// Takes in one document; returns the object if it is one of ours and sound.
    fn document(
        &mut self,
        document: &Document,
        findings: &mut Findings,
    ) -> Option<(Identity, Rc<Node>)> {
        let root = document.root.as_ref().map(|root| legacy::renamed(root, findings));
        let class = match &root {
            Some(root) => classify::classify(root, &document.place, findings),
            None => Class::Broken,
        };
        let object = match &class {
            Class::Ours(identity) => Some(reference(identity)),
            Class::Broken | Class::Foreign(_) | Class::Skipped => None,
        };
        // Other tools may well read what we do not.
        let is_ours = matches!(class, Class::Ours(_) | Class::Broken);
        let concerns_us = |flaw: &&Flaw| is_ours || flaw.rule != Rule::UnsupportedYaml;
        let mut is_sound = true;
        for flaw in document.flaws.iter().filter(concerns_us) {
            findings.flaw(flaw, object.clone());
            is_sound = false;
        }
        match class {
            Class::Ours(identity) if is_sound => {
                return Some((identity, root?));
            }
            Class::Foreign(foreign) if is_sound => self.foreign.push(foreign),
            Class::Skipped if is_sound => {}
            // A key that is there twice may be the name: two objects without a marker between.
            Class::Ours(_) | Class::Broken | Class::Foreign(_) | Class::Skipped => {
                self.unreadable = true;
                let identities = guess::identities(&document.text);
                self.lost |= identities.is_none();
                self.refused.extend(identities.into_iter().flatten());
                if let Class::Ours(identity) = class {
                    self.refused.insert(identity);
                }
            }
        }
        None
    }

    /// Takes in an object, or refuses it when it is there more than once.
    fn object(&mut self, identity: Identity, roots: &[Rc<Node>], findings: &mut Findings) {
        if let ([root], false) = (roots, self.refused.contains(&identity)) {
            self.objects.insert(identity, Rc::clone(root));
            return;
        }
        for (position, root) in roots.iter().enumerate().filter(|_| roots.len() > 1) {
            let others: Vec<String> = roots
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != position)
                .map(|(_, root)| root.place.to_string())
                .collect();
            let object = reference(&identity);
            let message = format!("{object} is also written in {}", others.join(" and "));
            let way_out = "keep one of them; until then its last good state stays in force";
            findings.place(Rule::DuplicateObject, &root.place, Some(object), message, way_out);
        }
        self.refused.insert(identity);
    }

    fn problem(&mut self, problem: &Problem, paths: &BTreeSet<&str>, findings: &mut Findings) {
        let Problem { path, kind } = problem;
        let (rule, message, way_out) = match kind {
            ProblemKind::Symlink { target } => {
                if is_harmless(path, target, paths) {
                    let message = "symbolic links are not followed".to_owned();
                    let way_out = "remove the link; what it points to is read where it is";
                    return findings.file(Rule::SymlinkSkipped, path, message, way_out);
                }
                let message = "a symbolic link is not followed, so what it means is not read";
                (Rule::Symlink, message.to_owned(), "put the file itself here")
            }
            ProblemKind::Submodule => {
                let message = "a Git submodule is not read";
                (Rule::Submodule, message.to_owned(), "copy its manifests here")
            }
            ProblemKind::LfsPointer => {
                let message = "the file is a Git LFS pointer, not a manifest";
                let way_out = "store it in Git itself: git lfs untrack, then commit it again";
                (Rule::LfsPointer, message.to_owned(), way_out)
            }
            ProblemKind::NameNotUtf8 => {
                (Rule::FileName, "the file's name is not UTF-8".to_owned(), "rename the file")
            }
            ProblemKind::TooLarge { bytes } => {
                let message =
                    format!("the file has {bytes} bytes; at most {FILE_MAX_BYTES} are read");
                (Rule::FileTooLarge, message, "split it into several files")
            }
            ProblemKind::TooManyFiles => {
                let message =
                    format!("there are more than {FILES_MAX} files; the rest is not read");
                (Rule::TooManyFiles, message, "name a smaller folder with --path")
            }
            ProblemKind::PathMissing => {
                let message = "the folder does not exist".to_owned();
                (Rule::PathMissing, message, "correct the path, or add the folder")
            }
            ProblemKind::Unreadable { error } => {
                let message = format!("it cannot be opened: {error}");
                (Rule::Unreadable, message, "correct its permissions or remove it")
            }
        };
        findings.file(rule, path, message, way_out);
        self.lose();
    }
}

/// Whether a link hides nothing: its target is read anyway, or it cannot be a manifest.
fn is_harmless(path: &str, target: &str, paths: &BTreeSet<&str>) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // A link without an extension may stand for a folder of manifests.
    if !is_manifest_name(path) && name.contains('.') {
        return true;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            // An empty first part is an absolute path.
            "" if parts.is_empty() || target.starts_with('/') => return false,
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            _ => parts.push(part),
        }
    }
    paths.contains(parts.join("/").as_str())
}
