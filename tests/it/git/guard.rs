//! Never backwards by surprise: every combination, as a table.

use nodewright::git::{Accepted, Ancestry, Candidate, CommitId, Decision, judge};

fn commit(digit: char) -> CommitId {
    digit.to_string().repeat(40).parse().expect("a commit id")
}

#[test]
fn a_commit_is_held_when_history_or_content_goes_backwards_and_let_through_by_its_full_id() {
    use Ancestry::{AcceptedUnknown, Descends, Diverged, Rewound, Same};
    let cases = [
        (Same, 3, "accept"),
        (Descends, 3, "accept"),
        (Descends, 0, "Emptied"),
        (Same, 0, "Emptied"),
        (Rewound, 3, "HistoryRewritten"),
        (Rewound, 0, "HistoryRewritten"),
        (Diverged, 3, "HistoryRewritten"),
        (AcceptedUnknown, 3, "HistoryRewritten"),
    ];
    let accepted = Accepted { commit: commit('a'), resources: 2 };
    for (ancestry, resources, wanted) in cases {
        let candidate = Candidate { commit: commit('b'), ancestry, resources };
        let outcome = match judge(Some(&accepted), &candidate, None) {
            Decision::Accept => "accept",
            Decision::Held(hold) => {
                assert_eq!(hold.candidate(), &candidate.commit);
                let way_out = format!("nodewright accept {}", candidate.commit);
                assert!(hold.to_string().contains(&way_out), "{hold}");
                hold.reason()
            }
        };
        assert_eq!(outcome, wanted, "{ancestry:?} with {resources} resources");
        let through = judge(Some(&accepted), &candidate, Some(&candidate.commit));
        assert_eq!(through, Decision::Accept, "{ancestry:?}");
        let other = judge(Some(&accepted), &candidate, Some(&commit('c')));
        assert_eq!(
            other == Decision::Accept,
            wanted == "accept",
            "another id lets nothing through"
        );
        assert_eq!(judge(None, &candidate, None), Decision::Accept, "the first commit");
    }
    let none_before = Accepted { commit: commit('a'), resources: 0 };
    let empty = Candidate { commit: commit('b'), ancestry: Descends, resources: 0 };
    assert_eq!(judge(Some(&none_before), &empty, None), Decision::Accept);
}
