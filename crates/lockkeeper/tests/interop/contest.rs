//! A contest: Lockkeeper (three tasks of two keepers) and foreign processes run critical sections on one key, note
//! what they saw, and the notes are checked.

use std::path::Path;

use lockkeeper::{Fence, Keeper, Lock, Released};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::history::apart;
use lockkeeper_testkit::wait::until;
use rustix::time::{ClockId, clock_gettime};

use crate::board::{Board, Field, LEAD, MEET, lay_out};
use crate::support::foreign::{Foreign, Process};
use crate::support::{exists, keeper, secs};

/// Seats 0 and 1 are tasks of one keeper, seat 2 is another keeper.
const OURS: u64 = 3;
/// No wait of a contender is longer.
const PATIENCE: std::time::Duration = secs(60);
const KEY: &str = "contest";

/// One critical section.
#[derive(Clone, Copy, Debug)]
struct Note {
    seat: u64,
    /// What the counter was.
    seen: u64,
    /// From after the acquire to before the release, in nanoseconds of the monotonic clock.
    inside: (u64, u64),
    /// Of our own sections.
    fence: Option<Fence>,
}

/// Runs `share` sections per seat and checks everything.
pub(crate) async fn contest(server: &RedisServer, foreigners: &[Foreign], share: u64) {
    let started = std::time::Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let seats = OURS + foreigners.len() as u64;
    lay_out(folder.path(), seats);
    let keepers = [keeper(server).await, keeper(server).await];
    let processes: Vec<(u64, Process)> = (OURS..)
        .zip(foreigners)
        .map(|(seat, &who)| (seat, start(who, server, folder.path(), seat, seats, share)))
        .collect();
    let tasks: Vec<_> = (0..OURS)
        .map(|seat| {
            let board = Board::open(folder.path(), seat, seats);
            let lock = keepers[usize::from(seat == OURS - 1)].lock_exact(KEY).unwrap().wait(PATIENCE);
            tokio::spawn(async move { contend(&lock, &board, share).await })
        })
        .collect();

    let (mut notes, mut waited) = (Vec::new(), Vec::new());
    for task in tasks {
        let (ours, waits) = task.await.unwrap();
        notes.extend(ours);
        waited.push(waits);
    }
    for (seat, mut process) in processes {
        waited.push(process.expect("waited").await.parse().unwrap());
        notes.extend(read_notes(folder.path(), seat));
    }
    let count = Board::open(folder.path(), 0, seats).count();
    check(notes, count, seats, share);
    assert!(waited.iter().all(|&waits: &u64| waits > 0), "each waited for another: {waited:?}");
    check_left_over(server, &keepers).await;
    println!("{foreigners:?}: {count} sections in {:?}; waited {waited:?}", started.elapsed());
}

fn start(who: Foreign, server: &RedisServer, folder: &Path, seat: u64, seats: u64, share: u64) -> Process {
    let place = ["contend".into(), server.port().to_string(), KEY.into(), folder.display().to_string()];
    let numbers = [seat, seats, share, LEAD, MEET].map(|number| number.to_string());
    who.start(&[&place[..], &numbers].concat())
}

/// Our side of what the scripts do; answers the notes and how often a first try was refused.
async fn contend(lock: &Lock, board: &Board, share: u64) -> (Vec<Note>, u64) {
    let (mut notes, mut waited) = (Vec::new(), 0);
    for number in 0..share {
        until("the others catch up", PATIENCE, async || board.may_start()).await;
        let guard = match lock.try_acquire().await.unwrap().held() {
            Some(guard) => guard,
            None => {
                waited += 1;
                board.put(Field::Waiting, 1);
                lock.acquire().await.unwrap().or_busy().unwrap()
            }
        };
        board.put(Field::Waiting, 0);
        notes.push(section(board, number, guard.fence().unwrap()).await);
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
    board.put(Field::Finished, 1);
    (notes, waited)
}

async fn section(board: &Board, number: u64, fence: Fence) -> Note {
    let entered = now();
    let seen = board.count();
    board.put(Field::Entered, number + 1);
    if number.is_multiple_of(MEET) {
        until("the others wait", PATIENCE, async || board.others_wait()).await;
    }
    board.set_count(seen + 1);
    Note { seat: 0, seen, inside: (entered, now()), fence: Some(fence) }
}

/// The clock that `time.monotonic_ns` and `process.hrtime` read on Linux.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

fn read_notes(folder: &Path, seat: u64) -> Vec<Note> {
    let text = std::fs::read_to_string(folder.join(format!("notes-{seat}"))).unwrap();
    let note = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [seen, entered, left] = numbers[..] else { panic!("{line}") };
        Note { seat, seen, inside: (entered, left), fence: None }
    };
    text.lines().map(note).collect()
}

/// The counter orders the sections, without any clock.
fn check(mut notes: Vec<Note>, count: u64, seats: u64, share: u64) {
    assert_eq!(count, seats * share, "no update was lost");
    notes.sort_by_key(|note| note.seen);
    assert!(notes.iter().map(|note| note.seen).eq(0..count), "each section saw another count");
    if cfg!(target_os = "linux") {
        // Elsewhere the three languages read different clocks.
        apart(notes.iter().map(|note| note.inside)).unwrap();
    }
    assert!(notes.iter().filter_map(|note| note.fence).is_sorted_by(|one, next| one < next), "fences grow");
    check_turns(&notes, share);
}

/// By the rule of the lead, no party runs more than so many sections of a seat without another's in between.
fn check_turns(notes: &[Note], share: u64) {
    let parties: Vec<u64> = notes.iter().map(|note| note.seat.max(OURS - 1)).collect();
    let least = share / (2 * LEAD + 1);
    for party in OURS - 1..=*parties.iter().max().unwrap() {
        let turns = parties.chunk_by(|one, next| one == next).filter(|turn| turn[0] == party).count();
        assert!(turns as u64 >= least, "party {party} had {turns} turns, at least {least} are due");
    }
}

async fn check_left_over(server: &RedisServer, keepers: &[Keeper]) {
    assert!(!exists(server, KEY));
    for keeper in keepers {
        assert_eq!(keeper.health().await.held, 0);
    }
}
