//! An error says its own part; what caused it is printed by whoever walks the chain.

use super::assert_tidy;
use super::source::{Source, rust_files};

fn complaints(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (byte, _) in source.code.match_indices("#[error(") {
        let open = byte + "#[error".len();
        let message = &source.text[open..closing(&source.code, open)];
        let body = body(&source.code, open + message.len());
        for field in sources(body) {
            if is_printed(message, &field) {
                let text = format!(
                    "{{{field}}} is printed and is the source: it would be said twice, leave it \
                     out of the message"
                );
                complaints.push(source.complain(source.line_of(byte), &text));
            }
        }
    }
    complaints
}

/// Returns the byte after the bracket that closes the one at `open`.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, letter) in code[open..].char_indices() {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    code.len()
}

/// Returns the fields of the variant or struct that follows, empty where it has none.
fn body(code: &str, from: usize) -> &str {
    let mut at = from + code[from..].find(']').map_or(0, |end| end + 1);
    // Other attributes come first.
    while let Some(hash) = code[at..].find(|letter: char| !letter.is_whitespace())
        && code[at + hash..].starts_with("#[")
    {
        at = closing(code, at + hash + 1);
    }
    let Some(end) = code[at..].find(['{', '(', ',', ';', '}']) else { return "" };
    let open = at + end;
    if code[open..].starts_with(['{', '(']) { &code[open..closing(code, open)] } else { "" }
}

/// Returns the names, or for a tuple the numbers, of fields that are the error's source.
fn sources(body: &str) -> Vec<String> {
    let inner = body.get(1..body.len().saturating_sub(1)).unwrap_or_default();
    let tuple = body.starts_with('(');
    let fields = fields(inner);
    let mut sources = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let name = match (tuple, name_of(field)) {
            (true, _) => index.to_string(),
            (false, Some(name)) => name,
            (false, None) => continue,
        };
        if name == "source" || field.contains("#[source]") || field.contains("#[from]") {
            sources.push(name);
        }
    }
    sources
}

/// Splits fields at the commas that are not inside a type.
fn fields(inner: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut depth = 0;
    for letter in inner.chars() {
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                fields.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = fields.last_mut() {
            last.push(letter);
        }
    }
    fields
}

fn name_of(field: &str) -> Option<String> {
    let plain = field.replace("#[source]", " ").replace("#[from]", " ");
    let (name, _) = plain.split_once(':')?;
    name.split_whitespace().last().map(str::to_owned)
}

fn is_printed(message: &str, field: &str) -> bool {
    ["}", ":", "."].iter().any(|end| message.contains(&format!("{{{field}{end}")))
}

#[test]
fn sources_are_not_said_twice() {
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|source| source.path.starts_with("src/"))
        .flat_map(complaints)
        .collect();
    assert_tidy(&found, "An error does not repeat its source.");
}

#[test]
fn sources_that_are_said_twice_are_found() {
    let bad = [
        r#"enum E { #[error("no: {source}")] A { source: io::Error } }"#,
        r#"enum E { #[error("no: {why:?}")] A { path: String, #[source] why: io::Error } }"#,
        r#"enum E { #[error("no {0}: {1}")] A(String, #[source] io::Error), B }"#,
        r#"enum E { #[error("no {0}")] A(#[from] io::Error), B }"#,
        r#"#[derive(Error)] #[error("no {source}")] pub struct E { #[source] source: Box<dyn E> }"#,
        "enum E {\n #[error(\n  \"no {source}\"\n )]\n /// D\n #[doc(hidden)]\n A { source: X }}",
    ];
    for text in bad {
        assert_eq!(complaints(&Source::new("src/x.rs", text)).len(), 1, "{text}");
    }
    let good = [
        r#"enum E { #[error("no: {path}")] A { path: String, source: io::Error } }"#,
        r#"enum E { #[error("no: {0}")] A(String, #[source] io::Error) }"#,
        r#"enum E { #[error("no")] A, #[error("{source}")] B { sources: u32 } }"#,
        r#"enum E { #[error(transparent)] A(#[from] io::Error) }"#,
    ];
    for text in good {
        assert_eq!(complaints(&Source::new("src/x.rs", text)), Vec::<String>::new(), "{text}");
    }
}
