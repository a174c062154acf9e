//! One buyer: clicks until there is an answer that counts, or the tries or the time are used up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Semaphore;

use super::backoff::pause;
use super::click::{Answer, Clicks};
use super::crowd::Crowd;
use super::notes::Notes;

/// What all buyers share.
pub(super) struct Street {
    pub(super) crowd: Crowd,
    pub(super) clicks: Clicks,
    /// One permit for each connection.
    pub(super) connections: Semaphore,
    pub(super) notes: Notes,
}

pub(super) struct Buyer {
    number: u32,
    account: String,
    random: SmallRng,
}

impl Buyer {
    pub(super) fn new(number: u32, seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { number, account: format!("buyer-{number}"), random }
    }

    /// Until the end, which is noted.
    pub(super) async fn shop(mut self, street: Arc<Street>) {
        let clicks_twice = self.random.random_bool(street.crowd.double_clicks);
        for tried in 0..street.crowd.tries {
            let server = self.server(&street.crowd, tried);
            let answer = if self.random.random_bool(street.crowd.lost_replies) {
                self.click_and_leave(&street, server).await
            } else if clicks_twice {
                let (one, other) = join(self.click(&street, server), self.click(&street, server)).await;
                better(one, other)
            } else {
                self.click(&street, server).await
            };
            let told = match answer {
                Answer::Bought { .. } => return street.notes.end("bought"),
                Answer::Never { reason } => return street.notes.end(&reason),
                Answer::NotNow { told, .. } => told,
                Answer::None => None,
            };
            tokio::time::sleep(pause(told, tried, &mut self.random)).await;
        }
        street.notes.end("gave-up");
    }

    /// Another one with each try: one of them may be dead.
    fn server(&self, crowd: &Crowd, tried: u32) -> SocketAddr {
        let at = u64::from(self.number) + u64::from(tried);
        crowd.servers[(at % crowd.servers.len() as u64) as usize]
    }

    async fn click(&self, street: &Street, server: SocketAddr) -> Answer {
        let Ok(_connection) = street.connections.acquire().await else { return Answer::None };
        let begun = Instant::now();
        let answer = street.clicks.click(server, &self.account).await;
        street.notes.answer(self.number, &answer, begun.elapsed());
        answer
    }

    async fn click_and_leave(&self, street: &Street, server: SocketAddr) -> Answer {
        let Ok(_connection) = street.connections.acquire().await else { return Answer::None };
        if street.clicks.click_and_leave(server, &self.account).await {
            street.notes.left();
        }
        Answer::None
    }
}

/// Of two clicks at once, the one that says more.
fn better(one: Answer, other: Answer) -> Answer {
    let rank = |answer: &Answer| match answer {
        Answer::Bought { .. } => 3,
        Answer::NotNow { .. } => 2,
        Answer::None => 1,
        Answer::Never { .. } => 0,
    };
    if rank(&other) > rank(&one) { other } else { one }
}
