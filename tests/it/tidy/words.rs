//! Words that say nothing, and marks of unfinished work.

use super::assert_tidy;
use super::source::{Source, rust_files, words};

/// Words that name no thing, with what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("manager", "name what it does"),
    ("managers", "name what they do"),
    ("helper", "name what it does"),
    ("helpers", "name what they do"),
    ("util", "put it beside what it is for"),
    ("utils", "put it beside what it is for"),
    ("handler", "name what it does; an HTTP handler lives in daemon/http"),
    ("handlers", "name what they do; HTTP handlers live in daemon/http"),
];

/// Identifiers that are somebody else's words.
const OTHERS_WORDS: &[(&str, &str)] = &[
    ("manager", "Kubernetes' field manager, in the places below"),
    ("managers", "Kubernetes' field managers, in the places below"),
    ("unschedulable_manager", "the field manager that cordoned"),
    ("field_manager", "Kubernetes"),
    ("field_managers", "Kubernetes"),
    ("FIELD_MANAGER", "Kubernetes"),
    ("FIELD_MANAGER_SOURCE", "Kubernetes"),
    ("fieldManager", "Kubernetes"),
    ("FIELD_MANAGER_PERSON", "Kubernetes"),
    ("with_field_manager", "Kubernetes"),
    ("WireManager", "an entry of Kubernetes' managedFields"),
    ("tokio_util", "a crate"),
    ("http_body_util", "a crate"),
    ("controller_manager", "kube-controller-manager, a program"),
    ("kube_controller_manager", "kube-controller-manager, a program"),
];

/// Where HTTP requests are answered, and `handler` is the word for it.
const HTTP: &[&str] = &["src/daemon/http", "src/sim/"];

/// Macros that mark what is not done.
const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Words in comments that mark what is not done.
const UNFINISHED_WORDS: &[&str] = &["FIXME", "XXX"];

fn complaints(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for part in source.path.split(['/', '.']) {
        if let Some(wrong) = banned(part, &source.path) {
            complaints.push(source.complain(1, &format!("the name of the file: {wrong}")));
        }
    }
    for (byte, word) in words(&source.code) {
        let is_macro = source.code[byte + word.len()..].starts_with('!')
            && !source.code[byte + word.len()..].starts_with("!=");
        let wrong = if is_macro && UNFINISHED_MACROS.contains(&word) {
            Some(format!("{word}! is not finished work"))
        } else {
            banned(word, &source.path)
        };
        complaints.extend(wrong.map(|wrong| source.complain(source.line_of(byte), &wrong)));
    }
    for (byte, word) in words(&source.comments) {
        if UNFINISHED_WORDS.contains(&word) {
            let text = format!("{word}: do it, or write an issue");
            complaints.push(source.complain(source.line_of(byte), &text));
        }
    }
    complaints
}

fn banned(identifier: &str, path: &str) -> Option<String> {
    let foreign = OTHERS_WORDS.iter().any(|(word, _)| *word == identifier);
    let http = HTTP.iter().any(|place| path.starts_with(place));
    let parts = parts(identifier);
    let (word, instead) = BANNED.iter().find(|(word, _)| parts.iter().any(|part| part == word))?;
    let fine = foreign || (http && word.starts_with("handler"));
    (!fine).then(|| format!("{identifier}: {word} says nothing, {instead}"))
}

/// Returns the words of an identifier in either case style, in lower case.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before_lower = false;
    for letter in identifier.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && before_lower) {
            parts.push(String::new());
        }
        before_lower = letter.is_lowercase();
        if letter.is_alphanumeric()
            && let Some(last) = parts.last_mut()
        {
            last.extend(letter.to_lowercase());
        }
    }
    parts
}

#[test]
fn names_say_something_and_work_is_finished() {
    let found: Vec<String> = rust_files().iter().flat_map(complaints).collect();
    assert_tidy(&found, "Names say what a thing is; nothing is left half done.");
}

#[test]
fn empty_words_and_unfinished_work_are_found() {
    let bad = [
        ("src/plan/x.rs", "struct NodeManager;"),
        ("src/plan/utils.rs", ""),
        ("src/helpers/x.rs", ""),
        ("src/git/x.rs", "fn request_handler() {}"),
        ("src/git/x.rs", "const HELPER_LIMIT: u32 = 1;"),
        ("src/git/x.rs", "fn later() { todo!() }"),
        ("src/git/x.rs", "fn later() { unimplemented!(\"x\") }"),
        ("src/git/x.rs", "let x = dbg!(1);"),
        ("src/git/x.rs", concat!("// FIX", "ME: not now")),
        ("src/git/x.rs", concat!("/* XX", "X */")),
    ];
    for (path, text) in bad {
        assert_eq!(complaints(&Source::new(path, text)).len(), 1, "{path}: {text}");
    }
    let good = [
        ("src/daemon/http.rs", "fn metrics_handler() {}"),
        ("src/model/x.rs", "manager: Option<String>, // a helper, in a comment"),
        ("src/model/x.rs", "fn utility(manage: bool) { say(\"todo!\"); if todo != 1 {} }"),
    ];
    for (path, text) in good {
        assert_eq!(complaints(&Source::new(path, text)), Vec::<String>::new(), "{text}");
    }
}
