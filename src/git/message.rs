//! The message of a status commit: written, and read back.
//!
//! Subject, `[skip ci]`, trailers that `git interpret-trailers` reads (gitops 3.3). Everything that
//! comes from outside is cut to one line first: a package name must not be able to add a trailer.

/// The longest subject (gitops 3.3).
const SUBJECT_MAX_CHARS: usize = 72;

/// The longest value of a trailer.
const VALUE_MAX_CHARS: usize = 256;

/// What keeps forges from building the branch.
const SKIP_CI: &str = "[skip ci]";

const CLUSTER: &str = "Nodewright-Cluster";
const CLUSTER_UID: &str = "Nodewright-Cluster-UID";
const EPOCH: &str = "Nodewright-Epoch";
const SEQ: &str = "Nodewright-Seq";

/// Says who wrote a status commit, and which one in a row it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusMarks {
    /// The cluster's name.
    pub cluster: String,
    /// The UID of its kube-system namespace.
    pub cluster_uid: String,
    /// The term of the writer: how often the Lease changed hands.
    pub epoch: u64,
    /// The number of the commit on its branch.
    pub seq: u64,
}

/// Returns the message; `trailers` come between the cluster's marks and epoch and number.
///
/// A trailer that is named as one of the marks, or whose name is no trailer name, is left out.
pub fn compose_message(
    subject: &str,
    trailers: &[(String, String)],
    marks: &StatusMarks,
) -> String {
    let StatusMarks { cluster, cluster_uid, epoch, seq } = marks;
    let mut text = format!("{}\n\n{SKIP_CI}\n\n", one_line(subject, SUBJECT_MAX_CHARS));
    let mut add = |name: &str, value: &str| {
        let value = one_line(value, VALUE_MAX_CHARS);
        if !value.is_empty() {
            text.push_str(&format!("{name}: {value}\n"));
        }
    };
    add(CLUSTER, cluster);
    add(CLUSTER_UID, cluster_uid);
    for (name, value) in trailers {
        if is_trailer_name(name) && ![CLUSTER, CLUSTER_UID, EPOCH, SEQ].contains(&name.as_str()) {
            add(name, value);
        }
    }
    add(EPOCH, &epoch.to_string());
    add(SEQ, &seq.to_string());
    text
}

/// Returns the marks of a commit message; `None`: a person or another program wrote it.
pub fn parse_marks(message: &str) -> Option<StatusMarks> {
    let last = message.trim_end().rsplit("\n\n").next()?;
    let value = |name: &str| {
        let mut lines = last.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim().to_owned())
    };
    Some(StatusMarks {
        cluster: value(CLUSTER)?,
        cluster_uid: value(CLUSTER_UID)?,
        epoch: value(EPOCH)?.parse().ok()?,
        seq: value(SEQ)?.parse().ok()?,
    })
}

fn is_trailer_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Cuts to one line without control characters; an ellipsis says that something is missing.
fn one_line(text: &str, max_chars: usize) -> String {
    let plain: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if plain.chars().count() <= max_chars {
        return plain;
    }
    let cut: String = plain.chars().take(max_chars - 1).collect();
    format!("{}…", cut.trim_end())
}
