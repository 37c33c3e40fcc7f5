//! Every period is a constant with a reason.

use super::assert_tidy;
use super::source::{Source, rust_files, words};

fn complaints(source: &Source) -> Vec<String> {
    let code = &source.code;
    let mut complaints = Vec::new();
    for (byte, _) in code.match_indices("Duration::from_") {
        let call = &code[byte..];
        let argument = call.find('(').map_or("", |open| call[open + 1..].trim_start());
        let literal = argument.starts_with(|letter: char| letter.is_ascii_digit());
        let item = &code[item_start(code, byte)..byte];
        let constant = words(item).iter().any(|(_, word)| matches!(*word, "const" | "static"));
        if literal && !constant {
            let text = "a bare number: make it a constant that says why it is so long";
            complaints.push(source.complain(source.line_of(byte), text));
        }
    }
    complaints
}

/// Returns where the statement or item around `byte` begins; brackets such as those of an array's
/// type do not end it.
fn item_start(code: &str, byte: usize) -> usize {
    let mut depth = 0_u32;
    for (at, letter) in code[..byte].char_indices().rev() {
        match letter {
            ']' | ')' => depth += 1,
            '[' | '(' => depth = depth.saturating_sub(1),
            ';' | '{' | '}' if depth == 0 => return at,
            _ => {}
        }
    }
    0
}

#[test]
fn periods_are_constants() {
    let sources = rust_files();
    let ours = sources.iter().filter(|source| source.path.starts_with("src/"));
    let found: Vec<String> = ours.flat_map(complaints).collect();
    assert_tidy(&found, "Periods and time-outs are named, with a reason.");
}

#[test]
fn bare_periods_are_found() {
    let bad = [
        "fn f() { wait(Duration::from_secs(5)); }",
        "const A: u32 = 1;\nlet b = Duration::from_millis( 250 );",
        "struct S { a: Duration } impl S { fn n() -> Self { S { a: Duration::from_mins(1) } } }",
        "let c = SignedDuration::from_secs(1);",
    ];
    for text in bad {
        assert_eq!(complaints(&Source::new("src/x.rs", text)).len(), 1, "{text}");
    }
    let good = [
        "const A: Duration = Duration::from_secs(5);",
        "pub const A: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(6)];",
        "fn f(n: u64) { wait(Duration::from_secs(n)); } // Duration::from_secs(5)",
    ];
    for text in good {
        assert_eq!(complaints(&Source::new("src/x.rs", text)), Vec::<String>::new(), "{text}");
    }
}
