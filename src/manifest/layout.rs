//! Which files belong to a cluster, and in which layer (design §8).
//!
//! In: the paths of a tree, the name of the cluster. Out: the files of the base and of the overlay,
//! or why that cannot be said. Must never: read a pool that the cluster does not list.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::findings::Findings;
use super::rules::Rule;
use super::schema::{Schemas, Subject, shown};
use super::source::{Problem, ProblemKind, SourceFile};
use super::suggest::suggest;
use super::tree::{Node, Value, parse_file};

/// Where in a tree to look, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Name of the cluster; asked for only where there is a folder `clusters`.
    pub cluster: Option<String>,
    /// Folder to read, relative to the root; empty is the root.
    pub path: String,
}

/// The files of one layer, with what could not be read in it.
#[derive(Debug, Default)]
pub(super) struct LayerFiles<'a> {
    pub files: Vec<&'a SourceFile>,
    pub problems: Vec<&'a Problem>,
}

/// The layers, the lower first.
#[derive(Debug, Default)]
pub(super) struct Layers<'a> {
    pub base: LayerFiles<'a>,
    pub overlay: LayerFiles<'a>,
    /// A pool could not be found, so the base is not complete.
    pub base_lost: bool,
}

/// Name of the file that says which pools a cluster uses.
const CLUSTER_FILE: &str = "cluster.yaml";

/// Returns `prefix/name`, or the name alone.
pub(super) fn joined(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
}

/// Returns the layers; `None` when it cannot be said what belongs to the cluster.
pub(super) fn layers<'a>(
    files: &'a [SourceFile],
    problems: &'a [Problem],
    layout: &Layout,
    schemas: &Schemas,
    findings: &mut Findings,
) -> Option<Layers<'a>> {
    let root = layout.path.trim_matches('/').trim_start_matches("./");
    let root = if root == "." { "" } else { root };
    let whole = in_folder(files, problems, root);
    if whole.files.is_empty() && whole.problems.is_empty() && !root.is_empty() {
        let message = format!("there is no folder {}", shown(root));
        findings.file(Rule::PathMissing, root, message, "correct the path, or add the folder");
        return None;
    }
    let clusters = joined(root, "clusters");
    let names = folders(files, &clusters);
    if names.is_empty() {
        return Some(Layers { overlay: whole, ..Layers::default() });
    }
    let cluster = known_cluster(layout, &clusters, &names, findings)?;
    let folder = joined(&clusters, cluster);
    let uses = pools(files, &joined(&folder, CLUSTER_FILE), cluster, schemas, findings)?;
    let mut layers = Layers { overlay: in_folder(files, problems, &folder), ..Layers::default() };
    let bases = joined(root, "base");
    let there = folders(files, &bases);
    for (pool, node) in uses {
        if there.contains(pool.as_str()) {
            let LayerFiles { files, problems } = in_folder(files, problems, &joined(&bases, &pool));
            layers.base.files.extend(files);
            layers.base.problems.extend(problems);
        } else {
            layers.base_lost = true;
            unknown_pool(&pool, &node, &bases, &there, findings);
        }
    }
    Some(layers)
}

fn unknown_pool(
    pool: &str,
    node: &Node,
    bases: &str,
    there: &BTreeSet<String>,
    findings: &mut Findings,
) {
    let names: Vec<&str> = there.iter().map(String::as_str).collect();
    let message = format!("there is no folder {}", joined(bases, pool));
    let way_out = match suggest(pool, &names) {
        Some(meant) => format!("write {meant} if that is what you mean, or add the folder"),
        None if names.is_empty() => "add the folder, or remove the pool".to_owned(),
        None => format!("write one of {}, or add the folder", names.join(", ")),
    };
    findings.place(Rule::UnknownPool, &node.place, None, message, &way_out);
}

/// Returns the files below a folder, without those in folders that start with a dot.
fn in_folder<'a>(files: &'a [SourceFile], problems: &'a [Problem], folder: &str) -> LayerFiles<'a> {
    LayerFiles {
        files: files.iter().filter(|file| is_below(&file.path, folder)).collect(),
        problems: problems
            .iter()
            .filter(|problem| {
                let Problem { path, kind } = problem;
                let concerns_all = *kind == ProblemKind::TooManyFiles || path.is_empty();
                // A link or submodule may stand where a folder on the way is expected.
                concerns_all || path == folder || is_below(path, folder) || is_below(folder, path)
            })
            .collect(),
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    let below = if folder.is_empty() {
        Some(path)
    } else {
        path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
    };
    below.is_some_and(|rest| !rest.split('/').any(|part| part.starts_with('.')))
}

/// Returns the names of the folders directly in a folder.
fn folders(files: &[SourceFile], folder: &str) -> BTreeSet<String> {
    files
        .iter()
        .filter(|file| is_below(&file.path, folder))
        .filter_map(|file| file.path[folder.len() + 1..].split_once('/'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn known_cluster<'a>(
    layout: &'a Layout,
    clusters: &str,
    names: &BTreeSet<String>,
    findings: &mut Findings,
) -> Option<&'a str> {
    let list = names.iter().map(String::as_str).collect::<Vec<_>>();
    let Some(cluster) = layout.cluster.as_deref() else {
        let message = format!("the folder {clusters} is there, but no cluster is named");
        let way_out = format!("name one with --cluster: {}", list.join(", "));
        findings.file(Rule::UnknownCluster, clusters, message, &way_out);
        return None;
    };
    if names.contains(cluster) {
        return Some(cluster);
    }
    let message = format!("there is no folder {}", joined(clusters, cluster));
    let way_out = match suggest(cluster, &list) {
        Some(meant) => {
            format!("name {meant} if that is what you mean; there are {}", list.join(", "))
        }
        None => format!("name one of {}, or add the folder", list.join(", ")),
    };
    findings.file(Rule::UnknownCluster, clusters, message, &way_out);
    None
}

/// Reads `cluster.yaml` and returns the pools it lists, with where they are listed.
fn pools(
    files: &[SourceFile],
    path: &str,
    cluster: &str,
    schemas: &Schemas,
    findings: &mut Findings,
) -> Option<Vec<(String, Rc<Node>)>> {
    let Some(file) = files.iter().find(|file| file.path == path) else {
        let message = format!("the cluster {cluster} has no {CLUSTER_FILE}");
        let way_out = "add it, with apiVersion: nodewright.dev/v1, kind: Cluster and uses: []";
        findings.file(Rule::ClusterFile, path, message, way_out);
        return None;
    };
    let Ok(text) = std::str::from_utf8(&file.bytes) else {
        findings.file(
            Rule::NotText,
            path,
            "the file is not UTF-8 text".to_owned(),
            "save it as UTF-8",
        );
        return None;
    };
    let documents = parse_file(&path.into(), text);
    let mut is_sound = true;
    for flaw in documents.iter().flat_map(|document| &document.flaws) {
        findings.flaw(flaw, None);
        is_sound = false;
    }
    let [document] = documents.as_slice() else {
        let message = format!("{CLUSTER_FILE} holds {} documents, not one", documents.len());
        findings.file(Rule::ClusterFile, path, message, "keep the document of kind Cluster");
        return None;
    };
    let root = document.root.as_ref().filter(|_| is_sound)?;
    for breach in schemas.check(Subject::Cluster, root) {
        findings.breach(&breach, &breach.path.place(root, breach.part), None);
        is_sound = false;
    }
    if let Some(name) = root.get("metadata").and_then(|metadata| metadata.get("name"))
        && name.text() != Some(cluster)
    {
        let message = format!("the file is in the folder of cluster {cluster}");
        let way_out = format!("write {cluster}, or leave the name out");
        findings.place(Rule::ClusterName, &name.place, None, message, &way_out);
        is_sound = false;
    }
    is_sound.then(|| listed(root))
}

fn listed(root: &Node) -> Vec<(String, Rc<Node>)> {
    let uses = root.get("uses").map(|uses| &uses.value);
    let Some(Value::List(items)) = uses else { return Vec::new() };
    let mut pools: Vec<(String, Rc<Node>)> = Vec::new();
    for item in items {
        let name = item.text().unwrap_or_default();
        if pools.iter().all(|(other, _)| other != name) {
            pools.push((name.to_owned(), Rc::clone(item)));
        }
    }
    pools
}
