//! The end: what the daemon left in Git, and how to look further.

use super::error::DemoError;
use super::folder::Folder;
use super::screen::Screen;
use super::story::CLUSTER;
use super::{state, status_branch};
use crate::git::LocalRepository;

/// Proves and shows the status branch.
pub(super) fn tell(
    screen: &mut Screen,
    folder: &Folder,
    repository: &LocalRepository,
) -> Result<(), DemoError> {
    const TITLE: &str = "The end: what the daemon wrote into the repository";
    let branch = status_branch();
    screen.chapter(
        TITLE,
        &format!(
            "All of this is on the branch {branch}, one commit for each change of state. Its \
             subjects, newest first:"
        ),
    )?;
    let history = repository.history(&branch)?;
    for told in &history {
        screen.quote(&format!("{} {}", &told.commit.as_str()[..7], told.subject()))?;
    }
    screen.say("Its README, as a forge shows it:")?;
    let readme = repository.text(&branch, "README.md")?;
    screen.quote(readme.as_deref().unwrap_or_default())?;
    let promise = state::status_branch(&history, readme.as_deref(), CLUSTER);
    let kept =
        promise.map_err(|what| DemoError::NotAsPromised { chapter: TITLE.to_owned(), what })?;
    screen.proven(&kept)?;
    look_further(screen, folder, &branch)
}

fn look_further(screen: &mut Screen, folder: &Folder, branch: &str) -> Result<(), DemoError> {
    screen.say("")?;
    if !folder.is_kept() {
        screen
            .say("Every step came out. To look further, play it again and keep the repository:")?;
        return Ok(screen.quote("nodewright demo --keep FOLDER")?);
    }
    let repository = folder.repository();
    let repository = repository.display();
    screen.say("Every step came out. To look further:")?;
    for command in [
        format!("git -C {repository} log --stat {branch}"),
        format!("git -C {repository} show {branch}:README.md"),
        format!("git -C {repository} log -p main"),
        format!("less {}", folder.request_log().display()),
        format!("less {}", folder.daemon_log().display()),
    ] {
        screen.quote(&command)?;
    }
    Ok(())
}
