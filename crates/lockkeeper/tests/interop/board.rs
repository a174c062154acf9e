//! What contenders share beside the lock: two files of 8-byte little-endian numbers, which programs in any language
//! can read and write in place.
//!
//! `counter` is what the lock protects. `board` has three numbers per *seat* (one contender: a task or a process),
//! each written by its seat alone: sections entered; 1 while it waits for the lock after a first try was refused; 1
//! when it has finished. They are for two rules that make every contender wait for every other, however fast or fair
//! it is:
//!
//! - Nobody starts a section while it is `LEAD` sections ahead of another that has not finished.
//! - In every `MEET`th section of its own, a holder waits until all others wait for it (or have finished, or may not
//!   start by the first rule).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// How far a contender may be ahead.
pub(crate) const LEAD: u64 = 4;
/// A holder waits for the others in one section of so many.
pub(crate) const MEET: u64 = 10;

/// A number on the board.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    Entered,
    Waiting,
    Finished,
}

const FIELDS: u64 = 3;

/// The files, opened for the contender on one seat.
pub(crate) struct Board {
    counter: File,
    board: File,
    seat: u64,
    seats: u64,
}

/// Makes both files, all zero.
pub(crate) fn lay_out(folder: &Path, seats: u64) {
    std::fs::write(folder.join("counter"), 0u64.to_le_bytes()).unwrap();
    std::fs::write(folder.join("board"), vec![0; usize::try_from(seats * FIELDS * 8).unwrap()]).unwrap();
}

impl Board {
    pub(crate) fn open(folder: &Path, seat: u64, seats: u64) -> Self {
        let open = |name| OpenOptions::new().read(true).write(true).open(folder.join(name)).unwrap();
        Self { counter: open("counter"), board: open("board"), seat, seats }
    }

    pub(crate) fn count(&self) -> u64 {
        read(&self.counter, 0)
    }

    pub(crate) fn set_count(&self, value: u64) {
        write(&self.counter, 0, value);
    }

    pub(crate) fn put(&self, field: Field, value: u64) {
        write(&self.board, at(self.seat, field), value);
    }

    /// The first rule, for this seat.
    pub(crate) fn may_start(&self) -> bool {
        !self.is_ahead(self.seat)
    }

    /// The second rule.
    pub(crate) fn others_wait(&self) -> bool {
        self.others(self.seat).all(|seat| {
            self.get(seat, Field::Waiting) == 1 || self.get(seat, Field::Finished) == 1 || self.is_ahead(seat)
        })
    }

    fn is_ahead(&self, seat: u64) -> bool {
        let entered = self.get(seat, Field::Entered);
        let mut running = self.others(seat).filter(|&other| self.get(other, Field::Finished) == 0);
        running.any(|other| entered >= self.get(other, Field::Entered) + LEAD)
    }

    fn others(&self, seat: u64) -> impl Iterator<Item = u64> {
        (0..self.seats).filter(move |&other| other != seat)
    }

    fn get(&self, seat: u64, field: Field) -> u64 {
        read(&self.board, at(seat, field))
    }
}

fn at(seat: u64, field: Field) -> u64 {
    8 * (seat * FIELDS + field as u64)
}

fn read(file: &File, at: u64) -> u64 {
    let mut cell = [0; 8];
    file.read_exact_at(&mut cell, at).unwrap();
    u64::from_le_bytes(cell)
}

fn write(file: &File, at: u64, value: u64) {
    file.write_all_at(&value.to_le_bytes(), at).unwrap();
}
