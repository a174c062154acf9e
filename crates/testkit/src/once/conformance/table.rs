//! The table of `lockkeeper::core::idempotency`, cell by cell.

use lockkeeper::core::idempotency::{
    AbandonReply, BeginReply, CompleteReply, HowAbandoned, KeepAliveReply, OnCrash, Phase, Resolution,
    ResolveReply, Strayed,
};
use lockkeeper::core::lock::Fence;

use crate::arm::OnceArm;
use crate::once::ask::{
    Bench, HOLD, abandon, begin, complete, keep_alive, other_request, resolve, result, token,
};

/// What is asked, in the order of the table's columns: by `a`, whose attempt it is, and by `b`.
const ASKED: [Asked; 12] = [
    Asked::Begin("a"),
    Asked::Begin("b"),
    Asked::OtherRequest,
    Asked::KeepAlive("a"),
    Asked::KeepAlive("b"),
    Asked::Complete("a"),
    Asked::Complete("b"),
    Asked::Abandon("a", HowAbandoned::Undone),
    Asked::Abandon("a", HowAbandoned::Crashed),
    Asked::Abandon("b", HowAbandoned::Undone),
    Asked::Undone,
    Asked::Completed,
];

/// Each answer in a word, and the phase after it where it is another one.
const TABLE: [(Phase, OnCrash, [&str; 4]); 6] = [
    (
        Phase::Absent,
        OnCrash::Rerun,
        [
            "claimed 1, running | claimed 1, running | claimed 1, running",
            "gone | gone",
            "gone | gone | gone | gone | gone",
            "gone | gone",
        ],
    ),
    (
        Phase::Running,
        OnCrash::Rerun,
        [
            "claimed 1 | running 1 | different",
            "kept | taken",
            "completed, completed | taken | abandoned, open | abandoned, lapsed | taken",
            "running | running",
        ],
    ),
    (
        Phase::Lapsed,
        OnCrash::Rerun,
        [
            "took over 2, running | took over 2, running | different",
            "lapsed | taken",
            "completed, completed | taken | abandoned, open | abandoned | taken",
            "resolved, open | resolved, completed",
        ],
    ),
    (
        Phase::Unknown,
        OnCrash::Hold(HOLD),
        [
            "unknown | unknown | different",
            "lapsed | taken",
            "completed, completed | taken | abandoned, open | abandoned | taken",
            "resolved, open | resolved, completed",
        ],
    ),
    (
        Phase::Completed,
        OnCrash::Rerun,
        [
            "completed | completed | different",
            "settled | taken",
            "completed | taken | settled | settled | taken",
            "settled | settled",
        ],
    ),
    (
        Phase::Open,
        OnCrash::Rerun,
        [
            "claimed 2, running | claimed 2, running | claimed 2, running",
            "settled | taken",
            "settled | taken | abandoned | abandoned | taken",
            "settled | settled",
        ],
    ),
];

#[derive(Clone, Copy, Debug)]
enum Asked {
    Begin(&'static str),
    OtherRequest,
    KeepAlive(&'static str),
    Complete(&'static str),
    Abandon(&'static str, HowAbandoned),
    Undone,
    Completed,
}

/// What leaves the phase as it was leaves the record so to the byte, and its expiry: no time passes meanwhile.
pub(super) async fn every_decision_in_every_phase(arm: &impl OnceArm) {
    for (phase, on_crash, row) in TABLE {
        let expected = row.iter().flat_map(|part| part.split(" | "));
        for (asked, expected) in ASKED.into_iter().zip(expected) {
            let name = format!("table:{phase:?}:{asked:?}");
            let bench = Bench::new(arm, &name);
            let fence = bench.bring_into(phase, on_crash).await;
            let before = bench.kept();
            let said = ask(&bench, asked, fence, on_crash).await;
            let after = bench.phase().await;
            let shown = if after == phase { said } else { format!("{said}, {}", word(after)) };
            assert_eq!(shown, expected, "{}: {name}", arm.name());
            assert_eq!(bench.kept() == before, after == phase, "{}: {name}: {before:?}", arm.name());
        }
    }
}

/// The answer in a word.
async fn ask(
    bench: &Bench<'_, impl OnceArm>,
    asked: Asked,
    fence: Option<Fence>,
    on_crash: OnCrash,
) -> String {
    match asked {
        Asked::Begin(who) => begun(bench.ask(begin(who, on_crash)).await, fence),
        Asked::OtherRequest => begun(bench.ask(other_request("b")).await, fence),
        Asked::KeepAlive(who) => match bench.ask(keep_alive(who)).await {
            KeepAliveReply::Kept => "kept".to_owned(),
            KeepAliveReply::Strayed(why) => strayed(&why),
        },
        Asked::Complete(who) => match bench.ask(complete(who)).await {
            CompleteReply::Completed { .. } => "completed".to_owned(),
            CompleteReply::Strayed(why) => strayed(&why),
        },
        Asked::Abandon(who, how) => match bench.ask(abandon(who, how)).await {
            AbandonReply::Abandoned => "abandoned".to_owned(),
            AbandonReply::Strayed(why) => strayed(&why),
        },
        Asked::Undone => resolved(bench, fence, Resolution::Undone).await,
        Asked::Completed => resolved(bench, fence, Resolution::Completed(result("operator"))).await,
    }
}

fn begun(reply: BeginReply, before: Option<Fence>) -> String {
    match reply {
        BeginReply::Claimed { fence, attempt: 1, takeover: false } => {
            assert!(before.is_none_or(|before| before == fence), "the same claim: {fence}");
            "claimed 1".to_owned()
        }
        BeginReply::Claimed { fence, attempt, takeover } => {
            assert!(before.is_some_and(|before| before < fence), "{fence} does not grow");
            format!("{} {attempt}", if takeover { "took over" } else { "claimed" })
        }
        BeginReply::Running { holder, attempt, .. } => {
            assert_eq!(holder, token("a").holder());
            format!("running {attempt}")
        }
        BeginReply::Completed { stored, fence, .. } => {
            assert_eq!((stored, Some(fence)), (result("a"), before));
            "completed".to_owned()
        }
        BeginReply::DifferentRequest => "different".to_owned(),
        BeginReply::Unknown { holder, fence, .. } => {
            assert_eq!((holder, Some(fence)), (token("a").holder(), before));
            "unknown".to_owned()
        }
    }
}

async fn resolved(bench: &Bench<'_, impl OnceArm>, fence: Option<Fence>, resolution: Resolution) -> String {
    if let Some(fence) = fence {
        let kept = bench.kept();
        for other in [fence.get() - 1, fence.get() + 1, u64::MAX].map(Fence::new) {
            let reply = bench.ask(resolve(other, resolution.clone())).await;
            assert_eq!(reply, ResolveReply::Changed(fence), "{}", bench.arm.name());
        }
        assert_eq!(bench.kept(), kept, "{}: another attempt was resolved", bench.arm.name());
    }
    match bench.ask(resolve(fence.unwrap_or(Fence::new(7)), resolution)).await {
        ResolveReply::Resolved => "resolved",
        ResolveReply::Gone => "gone",
        ResolveReply::Running { .. } => "running",
        ResolveReply::Changed(_) => "changed",
        ResolveReply::Settled => "settled",
    }
    .to_owned()
}

fn strayed(why: &Strayed) -> String {
    match why {
        Strayed::Gone => "gone",
        Strayed::Lapsed => "lapsed",
        Strayed::TakenOver(holder) => {
            assert_eq!(*holder, token("a").holder());
            "taken"
        }
        Strayed::Settled => "settled",
    }
    .to_owned()
}

fn word(phase: Phase) -> String {
    format!("{phase:?}").to_lowercase()
}
