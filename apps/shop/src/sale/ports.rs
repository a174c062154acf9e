//! The ports: for each decision of a sale its script, its keys and arguments, and how its reply is read.
//!
//! | key | holds |
//! |---|---|
//! | `shop:{<sku>:<shard>}` | a hash: the numbers of the shard |
//! | `shop:~buyers::{<sku>:<shard>}` | a hash: of a buyer to `+ticket` (served) or `-ticket` (refused) |
//! | `shop:~lent::{<sku>:<shard>}` | a hash: of a transfer to `to:units:epoch` |
//! | `shop:~moved::{<sku>:<shard>}` | a set: transfers with which this shard is done |
//! | `shop:~outbox::{<sku>:<shard>}` | a stream with the group `workers`: `ticket`, `buyer`, `at` |
//!
//! All keys of a shard lie in one cluster slot, and go three days after the sale closed. (Braces inside of a sku change what
//! follows the word, not that.)

use std::str::FromStr;
use std::time::Duration;

use lockkeeper_core::Timestamp;
use lockkeeper_redis::port::{Cmd, Fields, Malformed, Part, Port, Script, Value, time};

use super::names::{Ticket, Transfer};
use super::shard::{
    Done, Find, Found, GaveBack, GiveBack, Lend, Lending, Lent, Look, Looked, Mark, Message, Open, Opened,
    Receive, Received, Remember, Sell, Settle, Settled, Sold, Take, Taken, Waiting,
};

const BUYERS: Part = Part::side("buyers");
const LENT: Part = Part::side("lent");
const MOVED: Part = Part::side("moved");
const OUTBOX: Part = Part::side("outbox");

const UNKNOWN_STATUS: Malformed = Malformed("an unknown status");
const NO_NAME: Malformed = Malformed("a name was expected");
const NO_LENT: Malformed = Malformed("a note of a transfer was expected");

macro_rules! script {
    ($name:literal, read_only: $read_only:literal) => {{
        static SCRIPT: Script =
            Script::new($name, include_str!(concat!("../lua/", $name, ".lua")), $read_only);
        &SCRIPT
    }};
}

fn name<N: FromStr>(bytes: Vec<u8>) -> Result<N, Malformed> {
    String::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(NO_NAME)
}

fn ticket(fields: &mut Fields) -> Result<Ticket, Malformed> {
    name(fields.bytes()?)
}

/// `to:units:epoch`.
fn lent(bytes: &[u8]) -> Result<Lent, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| NO_LENT)?;
    let mut parts = text.split(':');
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok()).ok_or(NO_LENT);
    let to = u8::try_from(number()?).map_err(|_| NO_LENT)?;
    Ok(Lent { to, units: number()?, epoch: number()? })
}

impl Port for Open {
    const SCRIPT: &'static Script = script!("open", read_only: false);
    const KEYS: &'static [Part] = &[Part::Main, OUTBOX, LENT];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(time(self.opens)).arg(time(self.closes)).arg(self.until.as_millis()).arg(self.epoch);
        command.arg(self.left).arg(self.sold).arg(time(self.not_after));
    }

    fn read(&self, _at: Timestamp, status: &[u8], _fields: Fields) -> Result<Opened, Malformed> {
        match status {
            b"created" => Ok(Opened::Created),
            b"kept" => Ok(Opened::Kept),
            b"over" => Ok(Opened::Over),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Remember {
    const SCRIPT: &'static Script = script!("remember", read_only: false);
    const KEYS: &'static [Part] = &[BUYERS];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.until.as_millis()).arg(time(self.not_after));
        for (buyer, ticket) in &self.marks {
            command.arg(buyer.as_str()).arg(ticket.as_str());
        }
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<u64, Malformed> {
        match status {
            b"marked" => fields.unsigned(),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Sell {
    const SCRIPT: &'static Script = script!("sell", read_only: false);
    const KEYS: &'static [Part] = &[Part::Main, BUYERS, OUTBOX];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.buyer.as_str()).arg(self.ticket.as_str()).arg(time(self.not_after));
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<Sold, Malformed> {
        match status {
            b"sold" => Ok(Sold::Sold),
            b"served" => ticket(&mut fields).map(Sold::Served),
            b"refused" => Ok(Sold::Refused),
            b"empty" => Ok(Sold::Empty),
            b"not_open" => fields.unsigned().map(|us| Sold::NotOpen(Duration::from_micros(us))),
            b"closed" => Ok(Sold::Closed),
            b"unknown" => Ok(Sold::Unknown),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for GiveBack {
    const SCRIPT: &'static Script = script!("give_back", read_only: false);
    const KEYS: &'static [Part] = &[Part::Main, BUYERS];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.buyer.as_str()).arg(self.ticket.as_str()).arg(u8::from(self.withhold));
        command.arg(self.order.as_ref().map_or("", Ticket::as_str));
    }

    fn read(&self, _at: Timestamp, status: &[u8], _fields: Fields) -> Result<GaveBack, Malformed> {
        match status {
            b"returned" => Ok(GaveBack::Returned),
            b"nothing" => Ok(GaveBack::Nothing),
            b"unknown" => Ok(GaveBack::Unknown),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Look {
    const SCRIPT: &'static Script = script!("look", read_only: true);
    const KEYS: &'static [Part] = &[Part::Main, LENT, OUTBOX, BUYERS];

    fn arguments(&self, _command: &mut Cmd) {}

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<Option<Looked>, Malformed> {
        match status {
            b"unknown" => return Ok(None),
            b"seen" => {}
            _ => return Err(UNKNOWN_STATUS),
        }
        let (left, sold, withheld) = (fields.unsigned()?, fields.unsigned()?, fields.unsigned()?);
        let (moves, epoch, queued) = (fields.unsigned()?, fields.unsigned()?, fields.unsigned()?);
        let marks = fields.unsigned()?;
        let mut notes = fields.rest().next().map_or(Ok(Vec::new()), notes)?;
        notes.sort();
        Ok(Some(Looked { left, sold, withheld, moves, epoch, queued, marks, lent: notes }))
    }
}

fn notes(value: Value) -> Result<Vec<(Transfer, Lent)>, Malformed> {
    let (mut fields, mut notes) = (Fields::of(value)?, Vec::new());
    while !fields.is_empty() {
        notes.push((name(fields.bytes()?)?, lent(&fields.bytes()?)?));
    }
    Ok(notes)
}

impl Port for Find {
    const SCRIPT: &'static Script = script!("find", read_only: true);
    const KEYS: &'static [Part] = &[Part::Main, BUYERS];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.buyer.as_str());
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<Found, Malformed> {
        match status {
            b"served" => Ok(Found::Mark(Mark::Served(ticket(&mut fields)?))),
            b"refused" => Ok(Found::Mark(Mark::Refused(ticket(&mut fields)?))),
            b"nothing" => Ok(Found::Nothing),
            b"unknown" => Ok(Found::Unknown),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Lend {
    const SCRIPT: &'static Script = script!("lend", read_only: false);
    const KEYS: &'static [Part] = &[Part::Main, LENT, MOVED];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.transfer.as_str()).arg(self.to).arg(time(self.not_after));
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<Lending, Malformed> {
        match status {
            b"lent" => lent(&fields.bytes()?).map(Lending::Lent),
            b"nothing" => Ok(Lending::Nothing),
            b"settled" => Ok(Lending::Settled),
            b"unknown" => Ok(Lending::Unknown),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Receive {
    const SCRIPT: &'static Script = script!("receive", read_only: false);
    const KEYS: &'static [Part] = &[Part::Main, MOVED];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.transfer.as_str()).arg(self.units).arg(self.epoch);
    }

    fn read(&self, _at: Timestamp, status: &[u8], _fields: Fields) -> Result<Received, Malformed> {
        match status {
            b"received" => Ok(Received::Received),
            b"stale" => Ok(Received::Stale),
            b"early" => Ok(Received::Early),
            b"unknown" => Ok(Received::Unknown),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Settle {
    const SCRIPT: &'static Script = script!("settle", read_only: false);
    const KEYS: &'static [Part] = &[Part::Main, LENT, MOVED];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.transfer.as_str()).arg(u8::from(self.back));
    }

    fn read(&self, _at: Timestamp, status: &[u8], _fields: Fields) -> Result<Settled, Malformed> {
        match status {
            b"settled" => Ok(Settled::Settled),
            b"nothing" => Ok(Settled::Nothing),
            b"unknown" => Ok(Settled::Unknown),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Take {
    const SCRIPT: &'static Script = script!("take", read_only: false);
    const KEYS: &'static [Part] = &[Part::Main, OUTBOX];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(&self.worker).arg(self.most).arg(self.idle_ms());
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<Taken, Malformed> {
        match status {
            b"taken" => {
                let taken_over = fields.index()?;
                let messages: Result<Vec<Message>, Malformed> = fields.rest().map(message).collect();
                Ok(Taken { messages: messages?, taken_over })
            }
            b"unknown" => Ok(Taken::default()),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

fn message(value: Value) -> Result<Message, Malformed> {
    let mut fields = Fields::of(value)?;
    let id = String::from_utf8(fields.bytes()?).map_err(|_| NO_NAME)?;
    let (ticket, buyer) = (name(fields.bytes()?)?, name(fields.bytes()?)?);
    let sold_at: u64 = name(fields.bytes()?)?;
    Ok(Message { id, ticket, buyer, sold_at: Timestamp::from_micros(sold_at) })
}

impl Port for Waiting {
    const SCRIPT: &'static Script = script!("waiting", read_only: true);
    const KEYS: &'static [Part] = &[OUTBOX];

    fn arguments(&self, _command: &mut Cmd) {}

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<u64, Malformed> {
        match status {
            b"waiting" => fields.unsigned(),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Done {
    const SCRIPT: &'static Script = script!("done", read_only: false);
    const KEYS: &'static [Part] = &[OUTBOX];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(&self.ids);
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<u64, Malformed> {
        match status {
            b"removed" => fields.unsigned(),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}
