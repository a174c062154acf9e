//! One connection through the proxy: two lanes between two sockets.

use std::cell::Cell;

use tokio::net::TcpStream;

use super::lane::{Close, Lane};
use super::queue::Queue;
use super::registry::Shared;
use super::rules::Direction;
use super::stats::LaneCounters;

/// Serves a client until both sides have ended or the rules close the connection.
pub(crate) async fn serve(shared: &Shared, client: &TcpStream, lossy: &Cell<bool>) {
    let Ok(server) = TcpStream::connect(shared.target).await else {
        return turn_away(shared, client).await;
    };
    let _ = server.set_nodelay(true);
    if forward(shared, client, &server, lossy).await.is_err() {
        let _ = client.set_zero_linger();
    }
}

async fn forward(
    shared: &Shared,
    client: &TcpStream,
    server: &TcpStream,
    lossy: &Cell<bool>,
) -> Result<(), Close> {
    let requests = lane_of(shared, Direction::Requests, (client, server), lossy);
    let replies = lane_of(shared, Direction::Replies, (server, client), lossy);
    tokio::try_join!(requests.read(), requests.write(), replies.read(), replies.write())?;
    Ok(())
}

fn lane_of<'a>(
    shared: &'a Shared,
    direction: Direction,
    (from, to): (&'a TcpStream, &'a TcpStream),
    lossy: &'a Cell<bool>,
) -> Lane<'a> {
    let counters: &LaneCounters = match direction {
        Direction::Requests => &shared.counters.requests,
        Direction::Replies => &shared.counters.replies,
    };
    Lane { direction, from, to, rules: &shared.rules, counters, lossy, queue: Queue::default() }
}

/// There is no server: the client is to learn that, but not while nothing may reach it.
async fn turn_away(shared: &Shared, client: &TcpStream) {
    let mut rules = shared.rules.subscribe();
    let _ = rules.wait_for(|now| !now.black_hole && !now.hold_replies).await;
    let _ = client.set_zero_linger();
}
