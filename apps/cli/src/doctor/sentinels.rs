//! The Sentinels: whether they can be asked, agree, and are enough for a failover; how far the replicas lag.

use lockkeeper::redis::SentinelView;
use lockkeeper::redis::access::{Feature, Prefixes, Rule};

use super::facts::Facts;
use super::finding::{Finding, Level};
use super::replication;

const CHECK: &str = "sentinel";
const RIGHTS: &str = "sentinel-permissions";
/// With fewer, the loss of one ends all failovers.
const ENOUGH: usize = 3;
/// A replica that has not told for longer how far it is has trouble.
const LARGE_LAG: u64 = 10;

/// What the Sentinels of the URL say. Worst first: one finding for all of them.
pub(super) fn check(views: &[SentinelView]) -> Finding {
    let silent = views.iter().filter(|view| view.primary.is_err()).count();
    let without = views.iter().find_map(|view| view.quorum.clone()?.err());
    let (level, title, seen, advice) = if !agree(views) {
        (
            Level::Problem,
            "The Sentinels do not agree on the primary".to_owned(),
            "During a failover that is so for a moment. Else one of them is cut off, or watches something else.",
            "Ask again in a minute, then look at the Sentinels that say something else.",
        )
    } else if let Some(words) = without {
        (
            Level::Problem,
            format!("The Sentinels cannot fail over: {words}"),
            "When the primary goes away, no lock is taken until it is back.",
            "Bring the missing Sentinels back, and see that they reach each other.",
        )
    } else if silent > 0 {
        (
            Level::Warning,
            format!("{silent} of {} Sentinels cannot be asked from here", views.len()),
            "The others are enough for now.",
            "Look at those, or take them out of the URL.",
        )
    } else if views.len() < ENOUGH {
        (
            Level::Warning,
            format!("The URL names {}", counted(views.len())),
            "When those are away, the primary is not found.",
            "Run three or more on different machines, and name them all.",
        )
    } else {
        let title = format!("All {} Sentinels agree, and can fail over", views.len());
        let named = views.iter().find_map(|view| view.primary.as_ref().ok()?.as_ref());
        let seen = named.map(|(at, _)| format!("The primary is {at}.")).unwrap_or_default();
        return Finding::new(CHECK, Level::Ok, title).seen(seen);
    };
    Finding::new(CHECK, level, title).seen(seen).advice(advice).items(views.iter().map(line).collect())
}

/// What the user of the Sentinels may not do. Where nothing was refused, something is said only to whoever asked.
pub(super) fn rights(views: &[SentinelView], user: &str, is_asked: bool) -> Option<Finding> {
    let refused: Vec<String> = views
        .iter()
        .filter_map(|view| Some(format!("{}: {}", view.address, view.refused.as_ref()?)))
        .collect();
    if refused.is_empty() {
        return is_asked.then(|| allowed(views, user));
    }
    let fails = views.iter().any(|view| view.refused.is_some() && view.primary.is_err());
    let (level, seen) = if fails {
        (Level::Problem, "A Sentinel that may not be asked for the primary is of no use.")
    } else {
        (Level::Warning, "The primary is found, but a failover is noticed later, or less is seen here.")
    };
    let rule = Rule::of(&[Feature::Sentinels], &Prefixes::default(), (6, 2));
    let words = rule.words().iter().filter(|word| word.starts_with(['+', '&'])).map(String::as_str);
    let finding = Finding::new(RIGHTS, level, format!("User {user} lacks permissions on Sentinels"));
    let finding = finding.seen(seen).items(refused);
    let finding = finding.advice("Grant them on each Sentinel, and keep the rule (SENTINEL FLUSHCONFIG):");
    Some(finding.command(format!("ACL SETUSER {user} {}", words.collect::<Vec<_>>().join(" "))))
}

fn allowed(views: &[SentinelView], user: &str) -> Finding {
    let silent = |view: &&SentinelView| view.primary.is_err();
    let silent: Vec<String> = views.iter().filter(silent).map(line).collect();
    if silent.len() == views.len() {
        return Finding::new(RIGHTS, Level::Note, "The permissions on the Sentinels were not examined")
            .items(silent);
    }
    let title = format!("User {user} may do all that sentinels need, on the Sentinels that answer");
    Finding::new(RIGHTS, Level::Ok, title)
}

/// For a URL that names no Sentinels.
pub(super) fn not_here() -> Finding {
    Finding::new(RIGHTS, Level::Note, "What the user of the Sentinels may do is not examined here")
        .advice("Give the URL that names them: redis+sentinel://host,host/service.")
}

/// How far each replica is behind the primary. Nothing without replicas.
pub(super) fn lag(facts: &Facts) -> Option<Finding> {
    let replicas = replication::lags(facts, facts.number("master_repl_offset").unwrap_or(0));
    let worst = replicas.iter().map(|replica| replica.lag).max()?;
    let items = replicas.iter().map(|replica| {
        let (name, lag, behind) = (&replica.name, replica.lag, replica.behind);
        format!("{name}: told {lag} s ago, {behind} bytes behind, {}", replica.state)
    });
    let is_well = worst < LARGE_LAG && replicas.iter().all(|replica| replica.state == "online");
    let finding = if is_well {
        Finding::new("replica-lag", Level::Ok, "The replicas follow the primary")
    } else {
        Finding::new("replica-lag", Level::Warning, "A replica does not follow the primary")
            .seen("Promoted now, it would not know the locks that were taken since.")
            .advice("Look at its log and its connection to the primary.")
    };
    Some(finding.items(items.collect()))
}

/// All that answer name the same primary.
fn agree(views: &[SentinelView]) -> bool {
    let mut named = views.iter().filter_map(|view| view.primary.as_ref().ok());
    let first = named.next().and_then(Option::as_ref).map(|(at, _)| at);
    named.all(|next| next.as_ref().map(|(at, _)| at) == first)
}

fn line(view: &SentinelView) -> String {
    let says = match (&view.primary, &view.quorum) {
        (Err(trouble), _) => trouble.clone(),
        (Ok(None), _) => "watches no such service".to_owned(),
        (Ok(Some((at, epoch))), Some(Err(words))) => format!("primary {at} since epoch {epoch}; {words}"),
        (Ok(Some((at, epoch))), _) => format!("primary {at} since epoch {epoch}"),
    };
    format!("{}: {says}", view.address)
}

fn counted(count: usize) -> String {
    if count == 1 { "one Sentinel".to_owned() } else { format!("{count} Sentinels") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_silent_or_not_online_is_a_warning() {
        let level = |line: &str| {
            let info = format!("master_repl_offset:100\r\nslave0:{line}\r\n");
            lag(&Facts::of(&info, &[])).map(|found| (found.level, found.items.join("")))
        };
        let (well, text) = level("ip=h,port=1,state=online,offset=90,lag=1").unwrap();
        assert_eq!((well, text.as_str()), (Level::Ok, "h:1: told 1 s ago, 10 bytes behind, online"));
        assert_eq!(level("ip=h,port=1,state=online,offset=90,lag=11").unwrap().0, Level::Warning);
        assert_eq!(level("ip=h,port=1,state=wait_bgsave,offset=0,lag=0").unwrap().0, Level::Warning);
        assert!(lag(&Facts::of("", &[])).is_none());
    }
}
