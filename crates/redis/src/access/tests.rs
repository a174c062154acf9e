//! The table against the scripts, which are what really runs.

use std::collections::BTreeSet;

use super::*;
use crate::script::SCRIPTS;

/// Commands that run scripts, or that are sent by themselves.
const OUTSIDE: [&str; 8] =
    ["eval", "evalsha", "eval_ro", "evalsha_ro", "client|tracking", "scan", "get", "info"];

/// What a script calls. Every call names its command literally, so that this finds them all.
fn called(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in source.match_indices("redis.") {
        let rest = &source[at..];
        let Some(arguments) = rest.strip_prefix("redis.call(").or_else(|| rest.strip_prefix("redis.pcall("))
        else {
            panic!("neither call nor pcall: {}", rest.lines().next().unwrap());
        };
        let name = arguments.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
        names.insert(name.expect("a literal name").to_lowercase());
    }
    names
}

fn named(feature: Feature) -> BTreeSet<String> {
    feature.commands().map(|command| command.name.to_owned()).collect()
}

#[test]
fn every_call_of_every_script_is_in_the_table_of_a_feature_that_runs_it() {
    for script in SCRIPTS {
        let features = Feature::all().filter(|&feature| runs(feature, script));
        let granted: BTreeSet<String> = features.flat_map(named).collect();
        let missing: Vec<String> = called(script.source).difference(&granted).cloned().collect();
        assert!(missing.is_empty(), "{}: no feature grants {missing:?}", script.name);
        assert!(!called(script.source).is_empty(), "{}", script.name);
    }
}

/// A feature alone has to get its scripts through; of the scripts of limits, each algorithm runs its part.
#[test]
fn every_call_of_a_feature_is_in_its_own_table() {
    for feature in Feature::all() {
        if matches!(feature, Feature::Limits | Feature::SlidingLogs) {
            continue;
        }
        for script in feature.scripts() {
            let missing: Vec<String> = called(script.source).difference(&named(feature)).cloned().collect();
            assert!(missing.is_empty(), "{feature}: {} calls {missing:?}", script.name);
        }
    }
}

#[test]
fn nothing_is_granted_that_no_script_calls() {
    for feature in Feature::all().filter(|feature| !feature.scripts().is_empty()) {
        let calls: BTreeSet<String> =
            feature.scripts().iter().flat_map(|script| called(script.source)).collect();
        let outside = OUTSIDE.map(str::to_owned).into();
        let idle: Vec<String> = named(feature)
            .difference(&calls)
            .cloned()
            .collect::<BTreeSet<_>>()
            .difference(&outside)
            .cloned()
            .collect();
        assert!(idle.is_empty(), "{feature}: {idle:?} are never called");
    }
}

fn runs(feature: Feature, script: &Script) -> bool {
    feature.scripts().iter().any(|one| one.name == script.name)
}

/// Rows are found by their place.
#[test]
fn rows_stand_in_the_order_of_the_features() {
    for (at, feature) in Feature::all().enumerate() {
        assert_eq!(feature as usize, at, "{feature}");
    }
}

#[test]
fn names_are_read_and_others_refused() {
    for feature in Feature::all() {
        assert_eq!(feature.name().parse::<Feature>().unwrap(), feature);
    }
    assert!("lock".parse::<Feature>().unwrap_err().to_string().contains("locks, waiting"));
}

#[test]
fn a_rule_names_each_word_once_and_what_the_server_knows() {
    let (features, prefixes) = ([Feature::Inspecting, Feature::Limits], Prefixes::default());
    let new = Rule::of(&features, &prefixes, (7, 0)).to_string();
    assert!(new.contains("~lock:* ~limit:* +eval ") && new.contains("+eval_ro"), "{new}");
    assert_eq!(new.matches("+get").count(), 1, "{new}");
    assert!(!Rule::of(&features, &prefixes, (6, 2)).to_string().contains("_ro"));
    let odd = Prefixes { locks: b"a[b]*:".into(), ..prefixes };
    assert!(Rule::of(&[Feature::Locks], &odd, (7, 0)).to_string().contains(r"~a\[b\]\*:*"));
    let quorum = Rule::of(&[Feature::Quorum], &odd, (7, 0)).to_string();
    assert!(quorum.contains(r" ~a\[b\]\*:* ~~quorum +info "), "{quorum}");
    let sentinels = Rule::of(&[Feature::Sentinels], &odd, (7, 0)).to_string();
    assert_eq!(
        sentinels,
        "resetkeys resetchannels -@all &+selected-slave &+failover-state-wait-promotion &+promoted-slave \
         &+switch-master &+config-update-from +sentinel|master +sentinel|get-master-addr-by-name +subscribe \
         +sentinel|ckquorum"
    );
}

/// No server knows both, and one that does not know a command refuses the whole rule.
#[test]
fn what_only_one_product_has_is_in_no_rule() {
    let newest = Rule::of(&[Feature::Plain], &Prefixes::default(), (u32::MAX, 0)).to_string();
    assert_eq!(newest, "resetkeys resetchannels -@all ~lock:* +time +get +set +pttl +client|tracking");
}
