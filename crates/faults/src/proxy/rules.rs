//! What the proxy does to the traffic at the moment. The verbs change these rules; the lanes obey them.

use std::time::Duration;

/// What becomes of a connection whose reply is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReply {
    /// It stays open and the client waits until it loses patience.
    Silently,
    /// It is closed as soon as the first reply was dropped.
    ThenClose,
}

/// The direction of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// The rules; the default is to forward everything at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) refuse: bool,
    pub(crate) hold_requests: bool,
    pub(crate) hold_replies: bool,
    pub(crate) black_hole: bool,
    pub(crate) delay: Duration,
    pub(crate) drop_replies: Option<DropReply>,
    /// Drops the next chunk of replies, then is gone.
    pub(crate) drop_next: Option<DropReply>,
}

impl Rules {
    /// Whether nothing may be forwarded in this direction.
    pub(crate) fn holds(&self, direction: Direction) -> bool {
        match direction {
            Direction::Requests => self.hold_requests,
            Direction::Replies => self.hold_replies,
        }
    }
}
