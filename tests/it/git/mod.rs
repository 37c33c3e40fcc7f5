//! Git in and Git out, against real repositories and real servers on loopback.
//!
//! The transport process is the real binary. Nothing here leaves the machine.

mod address;
mod fetch;
mod guard;
mod hostile;
mod https;
mod known_hosts;
mod local;
mod message;
mod pacer;
mod ssh;
mod status;
mod status_conflicts;
mod tree;
mod verdict;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository, Signature, Time};
use nodewright::git::{
    Address, CommitId, FetchRequest, Fetched, Limits, Remote, Source, Transport, TransportError,
};
use tempfile::TempDir;

/// A bare repository in a temporary folder, as a forge would hold it.
pub struct Origin {
    folder: TempDir,
    pub repository: Repository,
}

/// A cache folder of ours and the transport that fills it.
pub struct Cache {
    folder: TempDir,
    pub transport: Transport,
}

impl Origin {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let repository =
            Repository::init_bare(folder.path().join("fleet.git")).expect("a bare repo");
        Self { folder, repository }
    }

    /// The folder in which the repository `fleet.git` lies.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("fleet.git")
    }

    pub fn remote(&self) -> Remote {
        remote(self.path().to_str().expect("a path as text"), None)
    }

    /// Commits exactly these files on top of a branch, and moves it.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)]) -> CommitId {
        let parent = self.tip(branch);
        self.commit_on(branch, parent.as_ref(), files, "a change\n")
    }

    /// Commits exactly these files on top of `parent`, and forces the branch there.
    pub fn commit_on(
        &self,
        branch: &str,
        parent: Option<&CommitId>,
        files: &[(&str, &str)],
        message: &str,
    ) -> CommitId {
        let mut tree = TreeOf::default();
        for (path, content) in files {
            tree.put(path, self.repository.blob(content.as_bytes()).expect("a blob"), 0o100_644);
        }
        let tree = tree.write(&self.repository);
        self.commit_tree(branch, parent, tree, message)
    }

    pub fn commit_tree(
        &self,
        branch: &str,
        parent: Option<&CommitId>,
        tree: Oid,
        message: &str,
    ) -> CommitId {
        let author =
            Signature::new("Ada", "ada@example.org", &Time::new(1_790_000_000, 0)).expect("a name");
        let tree = self.repository.find_tree(tree).expect("the tree");
        let parent = parent.map(|it| self.repository.find_commit(oid(it)).expect("the parent"));
        let parents: Vec<_> = parent.iter().collect();
        let commit = self
            .repository
            .commit(None, &author, &author, message, &tree, &parents)
            .expect("a commit");
        self.repository
            .reference(&format!("refs/heads/{branch}"), commit, true, "test")
            .expect("the branch");
        commit.to_string().parse().expect("a commit id")
    }

    pub fn tip(&self, branch: &str) -> Option<CommitId> {
        let tip = self.repository.refname_to_id(&format!("refs/heads/{branch}")).ok()?;
        Some(tip.to_string().parse().expect("a commit id"))
    }

    /// What `git` prints, run on this repository.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .arg("--git-dir")
            .arg(self.path())
            .args(arguments)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Cache {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let transport = Transport::new(PathBuf::from(env!("CARGO_BIN_EXE_nodewright")));
        Self { folder, transport }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub fn source(&self, remote: &Remote) -> Source {
        Source::new(remote.clone(), self.path())
    }

    pub fn request(&self, remote: &Remote, branch: &str) -> FetchRequest {
        FetchRequest {
            remote: remote.clone(),
            cache: self.path(),
            source_branch: Some(branch.to_owned()),
            status_cluster: Some("prod-a".to_owned()),
            limits: Limits::default(),
        }
    }

    pub fn fetch(&self, remote: &Remote, branch: &str) -> Result<Fetched, TransportError> {
        self.transport.fetch_blocking(self.request(remote, branch))
    }

    pub fn repository(&self) -> Repository {
        Repository::open_bare(self.path().join("repository.git")).expect("the clone")
    }
}

/// A tree to be written, with any mode for any path.
#[derive(Default)]
pub struct TreeOf {
    entries: BTreeMap<Vec<u8>, (Oid, i32)>,
    folders: BTreeMap<String, Self>,
}

impl TreeOf {
    pub fn put(&mut self, path: &str, id: Oid, mode: i32) {
        match path.split_once('/') {
            Some((folder, rest)) => {
                self.folders.entry(folder.to_owned()).or_default().put(rest, id, mode);
            }
            None => {
                self.entries.insert(path.as_bytes().to_owned(), (id, mode));
            }
        }
    }

    pub fn put_bytes(&mut self, name: &[u8], id: Oid, mode: i32) {
        self.entries.insert(name.to_owned(), (id, mode));
    }

    pub fn write(&self, repository: &Repository) -> Oid {
        let mut builder = repository.treebuilder(None).expect("a tree builder");
        for (name, (id, mode)) in &self.entries {
            builder.insert(name.as_slice(), *id, *mode).expect("an entry");
        }
        for (name, folder) in &self.folders {
            builder.insert(name, folder.write(repository), 0o040_000).expect("a folder");
        }
        builder.write().expect("a tree")
    }
}

pub fn remote(address: &str, credentials: Option<PathBuf>) -> Remote {
    let address = Address::parse("--repo", address).expect("an address");
    Remote { address, credentials }
}

pub fn oid(commit: &CommitId) -> Oid {
    Oid::from_str(commit.as_str()).expect("an id")
}
