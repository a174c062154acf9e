//! Orders over HTTP, on a real Redis: charged once, fenced, and never both refused and paid for.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod shopping;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use lockkeeper_faults::{PostgresServer, RedisServer, ServerKind, available, postgres_available};
use lockkeeper_shop::database::Database;
use lockkeeper_shop::orders::{Order, OrderNo, Status};
use lockkeeper_shop::payment::{Taken, Trouble};
use lockkeeper_shop::serve::{Running, ServeArgs, start};
use lockkeeper_shop::web::Reason;
use lockkeeper_testkit::wait::until;
use shopping::{Customer, Place, SOON, WIDE, order};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

fn no(order_no: &str) -> OrderNo {
    order_no.parse().unwrap()
}

async fn row(shop: &Running, account: &str, order_no: &str) -> Order {
    shop.shop().orders().show(&account.parse().unwrap(), &no(order_no)).await.unwrap().unwrap()
}

async fn taken(shop: &Running) -> Taken {
    shop.provider().taken().await.unwrap()
}

const ONE: Taken = Taken { charges: 1, cents: 1250 };
const NOTHING: Taken = Taken { charges: 0, cents: 0 };

#[tokio::test]
async fn an_order_is_made_once_and_shown_to_its_buyer_alone() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let customer = Customer::of(&shop);
    let made = customer.order("ann", "o-1").await;
    assert_eq!((made.status, &made.headers["location"]), (201, &"/orders/o-1".parse().unwrap()), "{made:?}");
    let json = made.json();
    assert_eq!((&json["status"], &json["amount_cents"]), (&"paid".into(), &1250.into()));

    let again = customer.order("ann", "o-1").await;
    assert_eq!((again.status, again.json()), (200, json.clone()));
    assert_eq!(customer.get("/orders/o-1", Some("ann")).await.json(), json);
    assert_eq!(customer.get("/orders/o-1", Some("bob")).await.refusal(), (404, "unknown-order".into()));
    let taken_by_other = customer.order("bob", "o-1").await;
    assert_eq!(taken_by_other.refusal(), (409, "order-taken".into()));
    assert!(
        !taken_by_other.text.contains("ann") && !taken_by_other.text.contains("ch_"),
        "{taken_by_other:?}"
    );
    let other_contents = order("o-1").replace("1250", "1251");
    assert_eq!(
        customer.post("/orders", Some("ann"), &other_contents).await.refusal(),
        (409, "order-differs".into())
    );
    assert_eq!(taken(&shop).await, ONE);
    shop.stop().await;
}

#[tokio::test]
async fn many_copies_of_one_order_at_once_are_one_order() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let customers = [Customer::of(&one), Customer::of(&other)];
    let answers = join_all((0..40).map(|n| customers[n % 2].order("ann", "o-1"))).await;
    let with = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((with(201), with(200)), (1, 39), "{answers:?}");
    assert_eq!((taken(&one).await, one.provider().asked() + other.provider().asked()), (ONE, 1));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_provider_that_takes_the_money_and_loses_its_reply_is_paid_once() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    shop.provider().next(Trouble::LosesReply);
    let made = Customer::of(&shop).order("ann", "o-1").await;
    assert_eq!((made.status, taken(&shop).await, shop.provider().asked()), (201, ONE, 2));
    shop.stop().await;
}

#[tokio::test]
async fn without_an_answer_of_the_provider_nothing_is_promised_and_the_same_order_settles_it() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let customer = Customer::of(&shop);
    for trouble in [Trouble::LosesReply, Trouble::LosesReply, Trouble::Down] {
        shop.provider().next(trouble);
    }
    let unknown = customer.order("ann", "o-1").await;
    assert_eq!((unknown.refusal(), unknown.retry_after()), ((503, "payment-unknown".into()), 1));
    assert_eq!(row(&shop, "ann", "o-1").await.status, Status::Placed);
    assert_eq!((customer.order("ann", "o-1").await.status, taken(&shop).await), (201, ONE));
    shop.stop().await;
}

#[tokio::test]
async fn a_declined_order_stays_refused_and_costs_nothing() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let customer = Customer::of(&shop);
    shop.provider().next(Trouble::Declines);
    assert_eq!(customer.order("ann", "o-1").await.refusal(), (402, "declined".into()));
    assert_eq!(customer.order("ann", "o-1").await.refusal(), (409, "order-refused".into()));
    assert_eq!((taken(&shop).await, row(&shop, "ann", "o-1").await.status), (NOTHING, Status::Refused));
    shop.stop().await;
}

/// While `order_no` is being charged by `one`, its lock is lost, and `meanwhile` runs. Then the charge goes on.
async fn with_a_lost_lock<T>(
    place: &Place,
    one: &Running,
    then: impl Future<Output = T>,
) -> (shopping::Answer, T) {
    meanwhile(place, one, Trouble::Holds, then).await
}

async fn meanwhile<T>(
    place: &Place,
    one: &Running,
    trouble: impl FnOnce(Arc<Semaphore>) -> Trouble,
    then: impl Future<Output = T>,
) -> (shopping::Answer, T) {
    let gate = Arc::new(Semaphore::new(0));
    one.provider().next(trouble(gate.clone()));
    let customer = Customer::of(one);
    let late = tokio::spawn(async move { customer.order("ann", "o-1").await });
    until("the charge is under way", SOON, || async { one.provider().asked() == 1 }).await;
    assert_eq!(place.redis.command(&["DEL", "lock:order:o-1"]).unwrap().as_int(), Some(1));
    let done = then.await;
    gate.add_permits(1);
    (late.await.unwrap(), done)
}

#[tokio::test]
async fn who_lost_the_lock_changes_no_row() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let customer = Customer::of(&other);
    let (late, first) = with_a_lost_lock(&place, &one, async {
        let answer = customer.order("ann", "o-1").await;
        (answer, row(&other, "ann", "o-1").await)
    })
    .await;
    assert_eq!((first.0.status, late.refusal()), (201, (409, "stale-fence".into())));
    assert_eq!(row(&other, "ann", "o-1").await, first.1, "the later fence's row stays as it was");
    assert_eq!(taken(&other).await, ONE);
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn who_lost_the_lock_changes_no_row_though_the_later_holder_has_not_ended_the_order() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let customer = Customer::of(&other);
    (0..3).for_each(|_| other.provider().next(Trouble::Down));
    let (late, first) = with_a_lost_lock(&place, &one, customer.order("ann", "o-1")).await;
    assert_eq!((first.status, late.refusal()), (503, (409, "stale-fence".into())));
    assert_eq!(row(&other, "ann", "o-1").await.status, Status::Placed);
    assert_eq!((customer.order("ann", "o-1").await.status, taken(&other).await), (201, ONE));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn c61_a_charge_that_comes_after_the_expiry_is_declined() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let (late, expired) =
        with_a_lost_lock(&place, &one, async { other.shop().orders().expire(&no("o-1")).await.unwrap() })
            .await;
    assert!(expired);
    assert_eq!(late.refusal(), (402, "declined".into()));
    assert_eq!((taken(&one).await, row(&one, "ann", "o-1").await.status), (NOTHING, Status::Refused));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn c61_payment_and_expiry_at_the_same_moment_have_one_winner() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let (customer, orders) = (Customer::of(&one), other.shop().orders());
    let mut wins = [0, 0];
    for n in 0..40 {
        let order_no = format!("o-{n}");
        // Placed, and its payment unknown.
        (0..3)
            .for_each(|_| one.provider().next(if n % 2 == 0 { Trouble::LosesReply } else { Trouble::Down }));
        assert_eq!(customer.order("ann", &order_no).await.status, 503);
        let (no, delay) = (no(&order_no), Duration::from_micros(150 * (n / 2)));
        let expire = async {
            tokio::time::sleep(delay).await;
            orders.expire(&no).await.unwrap()
        };
        let (paid, expired) = join(customer.order("ann", &order_no), expire).await;
        let status = row(&one, "ann", &order_no).await.status;
        let has_money = one.provider().ledger().has_taken(&no).await.unwrap();
        assert_eq!(
            (paid.status == 201, status == Status::Paid),
            (!expired, !expired),
            "{order_no}: {paid:?}"
        );
        assert_eq!(has_money, !expired, "{order_no}: money and order agree");
        wins[usize::from(expired)] += 1;
    }
    assert!(wins.iter().all(|wins| *wins > 0), "both sides won sometimes: {wins:?}");
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn orders_that_nobody_pays_are_refused_and_their_money_is_settled_later_if_need_be() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let orders = shop.shop().orders();
    (0..3).for_each(|_| shop.provider().next(Trouble::LosesReply));
    assert_eq!(Customer::of(&shop).order("ann", "o-1").await.status, 503);
    assert_eq!(orders.expire_due(Duration::from_secs(60)).await.unwrap(), 0, "it is young");
    assert_eq!(taken(&shop).await, ONE);
    shop.provider().fail_next_void();
    assert_eq!(orders.expire_due(Duration::ZERO).await.unwrap(), 0, "the provider is away");
    assert_eq!((taken(&shop).await, row(&shop, "ann", "o-1").await.status), (ONE, Status::Refused));
    assert_eq!(orders.expire_due(Duration::ZERO).await.unwrap(), 1);
    assert_eq!((taken(&shop).await, orders.expire_due(Duration::ZERO).await.unwrap()), (NOTHING, 0));
    shop.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_is_charged_is_charged_once() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let gate = Arc::new(Semaphore::new(0));
    shop.provider().next(Trouble::Holds(gate.clone()));
    let mut stream = tokio::net::TcpStream::connect(shop.address()).await.unwrap();
    let body = order("o-1");
    let head = "POST /orders HTTP/1.1\r\nhost: a\r\nx-account: ann\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    until("the charge is under way", SOON, || async { shop.provider().asked() == 1 }).await;
    drop(stream);
    gate.add_permits(1);
    // The lock is given back in the background, or the order is made.
    let customer = Customer::of(&shop);
    let again = customer.order("ann", "o-1").await;
    assert!([200, 201].contains(&again.status), "{again:?}");
    assert_eq!(taken(&shop).await, ONE);
    shop.stop().await;
}

#[tokio::test]
async fn c28_an_order_with_a_key_is_answered_again_as_it_was() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let first = Customer::of(&one).order_with_key("ann", "k-1", &order("o-1")).await;
    assert_eq!((first.status, first.headers.contains_key("idempotent-replayed")), (201, false), "{first:?}");
    let again = Customer::of(&other).order_with_key("ann", "\"k-1\"", &order("o-1")).await;
    assert_eq!((again.status, &again.text), (201, &first.text));
    for same in ["location", "content-type"] {
        assert_eq!(again.headers[same], first.headers[same]);
    }
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let remaining = |answer: &shopping::Answer| answer.headers["ratelimit"].to_str().unwrap().to_owned();
    assert_eq!(again.headers.get_all("ratelimit").iter().count(), 1);
    assert!(remaining(&again).contains("r="), "{again:?}");
    assert_eq!((taken(&one).await, one.provider().asked() + other.provider().asked()), (ONE, 1));
    let differs = Customer::of(&other).order_with_key("ann", "k-1", &order("o-2")).await;
    assert_eq!(differs.refusal(), (422, "key-differs".into()));
    assert_eq!(other.shop().tally().refused(Reason::KeyDiffers), 1);
    let bad = Customer::of(&one).order_with_key("ann", "", &order("o-1")).await;
    assert_eq!(bad.refusal(), (400, "bad-key".into()));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn c22_the_same_key_of_another_account_is_another_key() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let customer = Customer::of(&shop);
    assert_eq!(customer.order_with_key("ann", "1", &order("o-1")).await.status, 201);
    let same = customer.order_with_key("bob", "1", &order("o-1")).await;
    assert_eq!(same.refusal(), (409, "order-taken".into()), "his own request, not her answer");
    assert!(!same.headers.contains_key("idempotent-replayed") && !same.text.contains("ch_"), "{same:?}");
    assert_eq!(
        customer.order_with_key("bob", "1", &order("o-2")).await.status,
        201,
        "no effect, so the key is open"
    );
    assert_eq!(taken(&shop).await, Taken { charges: 2, cents: 2500 });
    shop.stop().await;
}

#[tokio::test]
async fn c62_an_order_whose_answer_is_lost_and_its_repetition_are_one_order() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let gate = Arc::new(Semaphore::new(0));
    shop.provider().next(Trouble::Holds(gate.clone()));
    let mut stream = tokio::net::TcpStream::connect(shop.address()).await.unwrap();
    let body = order("o-1");
    let head = "POST /orders HTTP/1.1\r\nhost: a\r\nx-account: ann\r\nidempotency-key: k-1\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    until("the charge is under way", SOON, || async { shop.provider().asked() == 1 }).await;
    let customer = Customer::of(&shop);
    let running = customer.order_with_key("ann", "k-1", &body).await;
    assert_eq!(running.refusal(), (409, "key-running".into()));
    assert!(running.retry_after() >= 1);
    drop(stream);
    gate.add_permits(1);
    let again = || customer.order_with_key("ann", "k-1", &body);
    until("the answer is there", SOON, || async { again().await.status != 409 }).await;
    let last = again().await;
    assert_eq!(
        (last.status, &last.headers["idempotent-replayed"]),
        (201, &"true".parse().unwrap()),
        "{last:?}"
    );
    assert_eq!((taken(&shop).await, shop.provider().asked()), (ONE, 1));
    shop.stop().await;
}

#[tokio::test]
async fn a_key_stays_open_where_asking_again_helps_and_shuts_where_it_does_not() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let customer = Customer::of(&shop);
    (0..3).for_each(|_| shop.provider().next(Trouble::Down));
    let away = customer.order_with_key("ann", "k-1", &order("o-1")).await;
    assert_eq!(away.refusal(), (503, "payment-unknown".into()));
    paid_by_asking_again(&customer).await;

    shop.provider().next(Trouble::Declines);
    let declined = customer.order_with_key("ann", "k-2", &order("o-2")).await;
    assert_eq!(declined.refusal(), (402, "declined".into()));
    let again = customer.order_with_key("ann", "k-2", &order("o-2")).await;
    assert_eq!(
        (again.refusal(), &again.headers["idempotent-replayed"]),
        (declined.refusal(), &"true".parse().unwrap())
    );
    let tally = shop.shop().tally();
    assert_eq!(tally.refused(Reason::Declined), 2, "the replayed one is counted as well");
    shop.stop().await;
}

/// Its end is recorded in the background.
async fn paid_by_asking_again(customer: &Customer) {
    until("it is paid", SOON, || async {
        let again = customer.order_with_key("ann", "k-1", &order("o-1")).await;
        assert!([201, 409].contains(&again.status), "{again:?}");
        again.status == 201
    })
    .await;
}

/// The money may have been taken, so the key stays this order's.
#[tokio::test]
async fn c24_a_key_whose_payment_is_unknown_orders_nothing_else() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let customer = Customer::of(&shop);
    (0..3).for_each(|_| shop.provider().next(Trouble::LosesReply));
    let unknown = customer.order_with_key("ann", "k-1", &order("o-1")).await;
    assert_eq!((unknown.refusal(), taken(&shop).await), ((503, "payment-unknown".into()), ONE));
    let other = customer.order_with_key("ann", "k-1", &order("o-2")).await;
    assert_eq!((other.refusal(), taken(&shop).await), ((422, "key-differs".into()), ONE));
    paid_by_asking_again(&customer).await;
    assert_eq!(taken(&shop).await, ONE);
    shop.stop().await;
}

#[tokio::test]
async fn who_is_declined_for_an_order_that_another_has_paid_is_told_that_it_is_paid() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let customer = Customer::of(&other);
    let trouble = |gate| Trouble::HoldsAndDeclines(gate);
    let (late, first) = meanwhile(&place, &one, trouble, customer.order("ann", "o-1")).await;
    assert_eq!((first.status, late.status, late.json()), (201, 200, first.json()));
    assert_eq!((taken(&other).await, row(&one, "ann", "o-1").await.status), (ONE, Status::Paid));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn who_is_declined_for_an_order_that_another_still_pays_is_told_nothing_about_its_end() {
    let Some(place) = Place::new() else { return };
    let (one, other) = (place.shop(WIDE).await, place.shop(WIDE).await);
    let customer = Customer::of(&other);
    (0..3).for_each(|_| other.provider().next(Trouble::Down));
    let trouble = |gate| Trouble::HoldsAndDeclines(gate);
    let (late, first) = meanwhile(&place, &one, trouble, customer.order("ann", "o-1")).await;
    assert_eq!((first.status, late.refusal()), (503, (409, "stale-fence".into())));
    one.stop().await;
    other.stop().await;
}

/// More rows than a round takes, older than the order, which nobody can end.
#[tokio::test]
async fn orders_that_cannot_be_ended_do_not_keep_others_from_being_ended() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let database = Database::open(&place.database()).await.unwrap();
    let damaged = "INSERT INTO orders (order_no, buyer, sku, amount_cents, created_at) WITH RECURSIVE n(i) AS \
                   (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT 'no number ' || i, 'b', 'a', 1, 0 FROM n";
    sqlx::query(damaged).execute(database.writer()).await.unwrap();
    (0..3).for_each(|_| shop.provider().next(Trouble::LosesReply));
    assert_eq!(Customer::of(&shop).order("ann", "o-1").await.status, 503);
    let orders = shop.shop().orders().clone();
    let mut ended = 0;
    for _ in 0..2 {
        ended += orders.expire_due(Duration::ZERO).await.unwrap();
    }
    assert_eq!((ended, taken(&shop).await), (1, NOTHING));
    shop.stop().await;
}

#[tokio::test]
async fn an_order_whose_client_has_gone_is_ended_before_the_shop_is() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let gate = Arc::new(Semaphore::new(0));
    shop.provider().next(Trouble::Holds(gate.clone()));
    let mut stream = tokio::net::TcpStream::connect(shop.address()).await.unwrap();
    let body = order("o-1");
    let head = "POST /orders HTTP/1.1\r\nhost: a\r\nx-account: ann\r\nidempotency-key: k-1\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    until("the charge is under way", SOON, || async { shop.provider().asked() == 1 }).await;
    drop(stream);
    let address = shop.address();
    let mut stopping = tokio::spawn(shop.stop());
    until("nobody listens any more", SOON, || async {
        tokio::net::TcpStream::connect(address).await.is_err()
    })
    .await;
    // Real time: an end that did not wait for the order would be over by now.
    let early = tokio::time::timeout(Duration::from_millis(300), &mut stopping).await;
    assert!(early.is_err(), "it waits for the order");
    gate.add_permits(1);
    stopping.await.unwrap();
    let database = Database::open(&place.database()).await.unwrap();
    let status: String =
        sqlx::query_scalar("SELECT status FROM orders").fetch_one(database.reader()).await.unwrap();
    assert_eq!(status, "paid");
    let next = place.shop(WIDE).await;
    let again = Customer::of(&next).order_with_key("ann", "k-1", &body).await;
    assert_eq!((again.status, &again.headers["idempotent-replayed"]), (201, &"true".parse().unwrap()));
    next.stop().await;
}

#[tokio::test]
async fn orders_are_the_same_on_postgres() {
    if !available(ServerKind::Redis) || !postgres_available() {
        return;
    }
    let (redis, postgres) = (RedisServer::builder().start().unwrap(), PostgresServer::start().unwrap());
    let words = format!("--listen 127.0.0.1:0 --url {} --database {} {WIDE}", redis.url(), postgres.url());
    let shop = start(ServeArgs::typed(words.split_whitespace()).unwrap()).await.unwrap();
    let (customer, orders) = (Customer::of(&shop), shop.shop().orders());
    shop.provider().next(Trouble::LosesReply);
    let answers = join_all((0..10).map(|_| customer.order("ann", "o-1"))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    assert_eq!((taken(&shop).await, row(&shop, "ann", "o-1").await.status), (ONE, Status::Paid));
    (0..3).for_each(|_| shop.provider().next(Trouble::LosesReply));
    assert_eq!(customer.order("ann", "o-2").await.status, 503);
    assert_eq!(orders.expire_due(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(customer.order("ann", "o-2").await.refusal(), (409, "order-refused".into()));
    assert_eq!((taken(&shop).await, orders.expire_due(Duration::ZERO).await.unwrap()), (ONE, 0));
    shop.stop().await;
}
