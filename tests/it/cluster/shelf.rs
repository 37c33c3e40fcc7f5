//! The newest version wins, whoever brought it and when.

use nodewright::cluster::shelf::{Change, Revision, Shelf};

fn put(shelf: &mut Shelf<&'static str>, revision: u64, value: &'static str) -> Change {
    shelf.put("a", "uid", Revision(revision), value, |one, other| one == other)
}

#[test]
fn a_late_event_does_not_undo_a_write() {
    let mut shelf = Shelf::default();
    assert_eq!(put(&mut shelf, 5, "read"), Change::Visible);
    assert_eq!(put(&mut shelf, 9, "written"), Change::Visible);
    assert_eq!(put(&mut shelf, 7, "late"), Change::Invisible);
    assert_eq!(shelf.get("a"), Some(&"written"));
    assert_eq!(put(&mut shelf, 10, "written"), Change::Invisible, "only the version is new");
}

#[test]
fn versions_are_numbers_not_texts() {
    assert!(Revision::parse("1000") > Revision::parse("999"));
    assert_eq!(Revision::parse("opaque"), Revision(0));
}

#[test]
fn the_late_answer_to_a_write_does_not_bring_a_deleted_object_back() {
    let mut shelf = Shelf::default();
    put(&mut shelf, 5, "read");
    assert_eq!(shelf.bury("a", Revision(8)), Change::Visible);
    assert_eq!(put(&mut shelf, 7, "answer"), Change::Invisible);
    assert_eq!(shelf.get("a"), None);
    assert_eq!(put(&mut shelf, 12, "created again"), Change::Visible);
    assert_eq!(shelf.bury("a", Revision(8)), Change::Invisible, "the deletion was of another");
    assert_eq!(shelf.get("a"), Some(&"created again"));
}

#[test]
fn a_deletion_by_uid_spares_the_successor() {
    let mut shelf = Shelf::default();
    put(&mut shelf, 5, "read");
    assert_eq!(shelf.bury_uid("a", "another"), Change::Invisible);
    assert_eq!(shelf.bury_uid("a", "uid"), Change::Visible);
    assert_eq!(put(&mut shelf, 5, "late"), Change::Invisible);
}

#[test]
fn an_object_of_another_uid_is_another_object() {
    let mut shelf = Shelf::default();
    put(&mut shelf, 5, "same");
    let change = shelf.put("a", "another", Revision(6), "same", |one, other| one == other);
    assert_eq!(change, Change::Visible);
}

#[test]
fn what_a_list_does_not_name_is_gone_unless_it_was_written_since() {
    let mut shelf = Shelf::default();
    let is_same = |one: &&str, other: &&str| one == other;
    for (name, revision) in [("gone", 3), ("kept", 4)] {
        shelf.put(name, name, Revision(revision), "old", is_same);
    }
    shelf.begin_list();
    shelf.note_listed("kept", Revision(6));
    shelf.put("kept", "kept", Revision(6), "new", is_same);
    shelf.put("written", "written", Revision(9), "just now", is_same);
    assert_eq!(shelf.end_list(), Change::Visible);
    let names: Vec<&str> = shelf.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["kept", "written"]);
    assert_eq!(shelf.end_list(), Change::Invisible, "no list is under way");
}
