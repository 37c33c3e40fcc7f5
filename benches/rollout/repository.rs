//! The repository that the daemon follows: a bare one in a folder, and a push to it.

use std::path::{Path, PathBuf};

use git2::{Error, Repository, Signature, Time};

/// Branch that the daemon follows.
const BRANCH: &str = "refs/heads/main";

/// When commits were made, in seconds since 1970: any time, the same in every run.
const COMMITTED_AT_SECONDS: i64 = 1_790_000_000;

/// A bare repository.
pub struct Origin {
    path: PathBuf,
    repository: Repository,
}

impl Origin {
    /// Makes an empty repository below a folder.
    pub fn new(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("fleet.git");
        let repository = Repository::init_bare(&path)?;
        Ok(Self { path, repository })
    }

    /// Returns the address that the daemon is given.
    pub fn address(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Commits one file, as a push does that has arrived.
    pub fn push(&self, name: &str, text: &str) -> Result<(), Error> {
        let repository = &self.repository;
        let mut tree = repository.treebuilder(None)?;
        tree.insert(name, repository.blob(text.as_bytes())?, 0o100_644)?;
        let tree = repository.find_tree(tree.write()?)?;
        let author = Signature::new("Ada", "ada@example.org", &Time::new(COMMITTED_AT_SECONDS, 0))?;
        repository.commit(Some(BRANCH), &author, &author, "a rollout\n", &tree, &[])?;
        Ok(())
    }

    /// Tells whether the daemon has written its status branch.
    pub fn has_status(&self, cluster: &str) -> bool {
        self.repository.find_reference(&format!("refs/heads/nodewright-status/{cluster}")).is_ok()
    }
}
