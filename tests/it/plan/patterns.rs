//! Patterns of `configInterrupts` match as Go's `filepath.Match` has it: its own table of cases.

use nodewright::model::{InterruptKind, Pattern};

use super::builders::{PackageExt, package};

#[test]
fn patterns_match_as_in_go() {
    let cases = [
        ("abc", "abc", true),
        ("*", "abc", true),
        ("*c", "abc", true),
        ("a*", "a", true),
        ("a*", "abc", true),
        ("a*", "ab/c", false),
        ("a*/b", "abc/b", true),
        ("a*/b", "a/c/b", false),
        ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/f", true),
        ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", false),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", false),
        ("a*b?c*x", "abxbbxdbxebxczzx", true),
        ("a*b?c*x", "abxbbxdbxebxczzy", false),
        ("ab[c]", "abc", true),
        ("ab[b-d]", "abc", true),
        ("ab[e-g]", "abc", false),
        ("ab[^c]", "abc", false),
        ("ab[^b-d]", "abc", false),
        ("ab[^e-g]", "abc", true),
        ("a\\*b", "a*b", true),
        ("a\\*b", "ab", false),
        ("a?b", "a\u{263a}b", true),
        ("a[^a]b", "a\u{263a}b", true),
        ("a???b", "a\u{263a}b", false),
        ("a[^a][^a][^a]b", "a\u{263a}b", false),
        ("[a-\u{3b6}]*", "\u{3b1}", true),
        ("*[a-\u{3b6}]", "A", false),
        ("a?b", "a/b", false),
        ("a*b", "a/b", false),
        ("[\\]a]", "]", true),
        ("[\\-]", "-", true),
        ("[x\\-]", "x", true),
        ("[x\\-]", "-", true),
        ("[x\\-]", "z", false),
        ("[\\-x]", "x", true),
        ("[\\-x]", "a", false),
        ("*x", "xxx", true),
        ("**", "abc", true),
        ("grub*", "grub.conf", true),
        ("grub*", "my.grub", false),
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
    ];
    for (pattern, key, expected) in cases {
        let parsed = Pattern::parse(pattern).expect("Go takes it");
        assert_eq!(parsed.matches(key), expected, "{pattern:?} on {key:?}");
    }
}

#[test]
fn what_go_refuses_matches_nothing() {
    let damaged = ["[]a]", "[-]", "[x-]", "[-x]", "\\", "[a-b-c]", "[", "[^", "[^bc", "a["];
    for pattern in damaged {
        assert_eq!(Pattern::parse(pattern), None, "{pattern:?}");
    }
}

#[test]
fn a_changed_key_asks_for_the_interrupts_of_every_pattern_that_matches() {
    let package = package("kernel", "1.0.0")
        .on_config("grub*", InterruptKind::Service)
        .on_config("grub.[a-c]*", InterruptKind::Reboot)
        .on_config("motd", InterruptKind::Noop);
    let asks = |key: &str| {
        let interrupt = package.interrupt_for(&[key.to_owned()].into());
        interrupt.map(|interrupt| interrupt.kind)
    };
    assert_eq!(asks("grub.conf"), Some(InterruptKind::Reboot), "the stronger of two");
    assert_eq!(asks("grub.x"), Some(InterruptKind::Service));
    assert_eq!(asks("motd"), Some(InterruptKind::Noop));
    assert_eq!(asks("motd.d"), None);
}
