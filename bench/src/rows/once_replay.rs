//! One task that asks for a stored answer of 1 KiB through the tower layer, against the same handler without the layer and one
//! bare call of the same script.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use lockkeeper_tower::IdempotencyLayer;
use redis::aio::MultiplexedConnection;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::arm::Arm;
use crate::bare::expect;
use crate::once::once;
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, cycles, on};
use crate::stage::Stage;
use crate::turn::Turn;
use crate::units::Unit;
use crate::words::Words;

const ANSWER: usize = 1024;
const MOST: f64 = 1.3;
const REQUEST: &str = r#"{"order_no":"A-1","sku":"lantern","amount_cents":1999}"#;

type Body = Full<Bytes>;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = measure_on(plan, Flavour::TwoWorkers)?;
    rows.append(&mut measure_on(plan, Flavour::OneThread)?);
    Ok(rows)
}

fn measure_on(plan: &Plan, flavour: Flavour) -> Result<Vec<Row>> {
    let stage = Stage::set(flavour)?;
    let layer = IdempotencyLayer::builder(once(&stage.keeper)?).shared_scope().build()?;
    let first = replay(layer.clone(), false);
    on(&stage.runtime, first)?;
    let again = replay(layer.clone(), true);
    let words = Words::of(&stage.server, || on(&stage.runtime, again))?;
    let connection = stage.bare.connection();
    let pairs = plan.compare(
        |turn| run(&stage, turn, Bare { connection: connection.clone(), words: words.clone() }),
        |turn| run(&stage, turn, Replays(layer.clone())),
    )?;
    stage.strike()?;
    let work = format!("replay of 1 KiB through the layer ({})", flavour.name());
    let cpu = format!("{work}: client CPU");
    Ok(vec![
        Row::compared(work, Unit::Nanoseconds, pairs.by(Turn::nanoseconds)?)
            .mark(Mark::RatioAtMost(MOST))
            .note("bare: the handler without the layer, and one call of `begin`"),
        Row::compared(cpu, Unit::Nanoseconds, pairs.by(Turn::cpu_nanoseconds)?),
    ])
}

/// The record stays, so nothing is cleared.
fn run(stage: &Stage, turn: Duration, arm: impl Arm) -> Result<Turn> {
    Turn::of(|| on(&stage.runtime, cycles(turn, arm)))
}

async fn handler<B: http_body::Body>(request: Request<B>) -> Result<Response<Body>, Infallible> {
    let _read = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(&[b'a'; ANSWER]))))
}

fn request() -> Result<Request<Body>> {
    let request = Request::post("/orders").header("content-type", "application/json");
    Ok(request.header("idempotency-key", "8e03978e-40d5-43e8-bc93-6894a57f9324").body(REQUEST.into())?)
}

async fn is_whole<B: http_body::Body<Error: std::fmt::Debug>>(response: Response<B>) -> Result<()> {
    let body = response.into_body().collect().await;
    let length = body.map(|body| body.to_bytes().len());
    ensure!(matches!(length, Ok(ANSWER)), "an answer of 1 KiB was expected, not {length:?}");
    Ok(())
}

async fn replay(layer: IdempotencyLayer, is_replay: bool) -> Result<()> {
    let response = layer.layer(service_fn(handler)).oneshot(request()?).await?;
    ensure!(response.headers().contains_key("idempotent-replayed") == is_replay, "{:?}", response.headers());
    is_whole(response).await
}

/// Lockkeeper: the layer.
struct Replays(IdempotencyLayer);

impl Arm for Replays {
    async fn cycle(&mut self, _number: u64) -> Result<()> {
        replay(self.0.clone(), true).await
    }
}

/// The handler, and the call by hand.
struct Bare {
    connection: MultiplexedConnection,
    words: Words,
}

impl Arm for Bare {
    async fn cycle(&mut self, _number: u64) -> Result<()> {
        let response = service_fn(handler).call(request()?).await?;
        is_whole(response).await?;
        let (head, key, arguments) = self.words.parts();
        let mut command = redis::cmd("EVALSHA");
        command.arg(head).arg(key).arg(arguments);
        expect(&command.query_async(&mut self.connection).await?, "completed")
    }
}
