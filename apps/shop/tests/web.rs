//! Every endpoint, and every refusal.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod shopping;

use http::Request;
use lockkeeper_shop::web::{MAX_BODY, Reason};
use lockkeeper_testkit::wait::until;
use shopping::{Customer, Place, SOON, WIDE, memory_shop, order};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_sale_from_the_first_click_to_sold_out() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(&format!("{WIDE} --stock 2")).await;
    let customer = Customer::of(&shop);
    let bought = customer.click("lantern", "ann").await;
    assert_eq!(
        (bought.status, &bought.headers["location"]),
        (202, &"/seckill/lantern/outcome".parse().unwrap())
    );
    let ticket = bought.json()["ticket"].clone();
    assert_eq!(bought.json()["outcome"], "/seckill/lantern/outcome");

    let again = customer.click("lantern", "ann").await;
    assert_eq!((again.status, &again.json()["ticket"]), (200, &ticket));
    until("the order is written", SOON, || async {
        let outcome = customer.get("/seckill/lantern/outcome", Some("ann")).await.json();
        assert_eq!(outcome["ticket"], ticket);
        outcome["state"] == "ordered"
    })
    .await;
    assert_eq!(customer.get("/seckill/lantern/outcome", Some("cem")).await.json()["state"], "none");
    assert_eq!(customer.click("lantern", "bob").await.status, 202);
    assert_eq!(customer.click("lantern", "cem").await.refusal(), (410, "sold-out".into()));
    assert_eq!(customer.click("lantern", "ann").await.status, 200, "who has one is told so even now");
    let stock = customer.stock("lantern").await;
    assert_eq!((&stock["initial"], &stock["remaining"], &stock["sold"]), (&2.into(), &0.into(), &2.into()));
    let live = customer.get("/live", None).await.json();
    assert_eq!(
        (&live["accepted"], &live["repeated"], &live["refusals"]["sold-out"]["count"]),
        (&2.into(), &2.into(), &1.into())
    );
    shop.stop().await;
}

#[tokio::test]
async fn c62_a_click_whose_answer_is_lost_and_its_repetition_are_one_order() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(&format!("{WIDE} --stock 5")).await;
    let customer = Customer::of(&shop);
    let mut stream = tokio::net::TcpStream::connect(shop.address()).await.unwrap();
    let click = "POST /seckill/lantern HTTP/1.1\r\nhost: a\r\nx-account: ann\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(click.as_bytes()).await.unwrap();
    until("it was sold", SOON, || async { customer.stock("lantern").await["sold"] == 1 }).await;
    drop(stream);
    let lost = customer.get("/seckill/lantern/outcome", Some("ann")).await.json()["ticket"].clone();
    let again = customer.click("lantern", "ann").await;
    assert_eq!((again.status, &again.json()["ticket"]), (200, &lost));
    let stock = customer.stock("lantern").await;
    assert_eq!((&stock["sold"], &stock["remaining"]), (&1.into(), &4.into()));
    shop.stop().await;
}

#[tokio::test]
async fn a_sale_that_is_not_open_closed_or_unknown_says_so() {
    let Some(place) = Place::new() else { return };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let shop = place.shop(&format!("{WIDE} --opens-at {}", now + 3600)).await;
    let early = Customer::of(&shop).click("lantern", "ann").await;
    assert_eq!(early.refusal(), (403, "not-open".into()));
    assert!((3590..=3600).contains(&early.retry_after()), "{early:?}");
    assert_eq!(Customer::of(&shop).click("kite", "ann").await.refusal(), (404, "unknown-sale".into()));
    let over = place.shop(&format!("{WIDE} --sku lamp --opens-at {} --open-for 1", now - 7200)).await;
    let late = Customer::of(&over).click("lamp", "ann").await;
    assert_eq!(late.refusal(), (410, "closed".into()));
    assert!(!late.headers.contains_key("retry-after"));
    shop.stop().await;
    over.stop().await;
}

#[tokio::test]
async fn the_two_limits_refuse_apart_and_who_clicks_too_often_takes_nothing_from_others() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop("--sale-limit 3/h --buyer-limit 2/h --stock 10").await;
    let customer = Customer::of(&shop);
    assert_eq!(
        [customer.click("lantern", "ann").await.status, customer.click("lantern", "ann").await.status],
        [202, 200]
    );
    for _ in 0..5 {
        let often = customer.click("lantern", "ann").await;
        assert_eq!(often.refusal(), (429, "buyer-busy".into()));
        assert!((1..=3600).contains(&often.retry_after()), "{often:?}");
    }
    assert_eq!(customer.click("lantern", "bob").await.status, 202, "the third of three");
    let full = customer.click("lantern", "cem").await;
    assert_eq!(full.refusal(), (429, "sale-busy".into()));
    assert!((1..=3600).contains(&full.retry_after()), "{full:?}");
    assert_eq!(full.json()["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(customer.stock("lantern").await["sold"], 2, "a refusal by a limit takes no stock");
    shop.stop().await;
}

#[tokio::test]
async fn a_limit_that_lets_nobody_in_tells_nobody_to_come_back() {
    let shop = memory_shop("--sale-limit none").await;
    let never = Customer::of(&shop).click("lantern", "ann").await;
    assert_eq!(never.refusal(), (403, "sale-busy".into()));
    assert!(!never.headers.contains_key("retry-after"));
    shop.stop().await;
}

#[tokio::test]
async fn orders_have_a_limit_for_each_account() {
    let shop = memory_shop("--order-limit 2/h").await;
    let customer = Customer::of(&shop);
    for order_no in ["o-1", "o-2"] {
        assert_eq!(customer.order("ann", order_no).await.status, 201);
    }
    let often = customer.order("ann", "o-3").await;
    assert_eq!(often.refusal(), (429, "orders-busy".into()));
    assert!((1..=3600).contains(&often.retry_after()), "{often:?}");
    assert_eq!(customer.order("bob", "o-3").await.status, 201, "another account");
    assert_eq!(customer.get("/orders/o-1", Some("ann")).await.status, 200, "looking is free");
    assert_eq!(shop.shop().tally().refused(Reason::OrdersBusy), 1);
    shop.stop().await;
}

#[tokio::test]
async fn a_store_that_is_away_is_no_answer_about_the_sale() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let customer = Customer::of(&shop);
    assert_eq!(customer.get("/healthz", None).await.json()["store"], "redis");
    place.redis.kill().unwrap();
    for answer in [
        customer.click("lantern", "ann").await,
        customer.order("ann", "o-1").await,
        customer.get("/seckill/lantern/stock", None).await,
        customer.get("/healthz", None).await,
    ] {
        assert_eq!((answer.refusal(), answer.retry_after()), ((503, "store-away".into()), 1));
    }
    place.redis.restart().unwrap();
    until("the shop is back", SOON, || async { customer.get("/healthz", None).await.status == 200 }).await;
    shop.stop().await;
}

#[tokio::test]
async fn accounts_are_asked_for_and_checked() {
    let shop = memory_shop(WIDE).await;
    let customer = Customer::of(&shop);
    let nobody = customer.post("/orders", None, &order("o-1")).await;
    assert_eq!(nobody.refusal(), (401, "no-account".into()));
    assert!(nobody.headers.contains_key("www-authenticate"));
    for (method, path) in [
        ("POST", "/seckill/lantern"),
        ("GET", "/seckill/lantern/outcome"),
        ("GET", "/orders/o-1"),
        ("POST", "/orders"),
    ] {
        let request =
            || Request::builder().method(method).uri(path).header("content-type", "application/json");
        let body = || order("o-1").into_bytes();
        assert_eq!(
            customer.send(request().body(body()).unwrap()).await.refusal(),
            (401, "no-account".into())
        );
        let long = "x".repeat(65);
        for bad in ["", "a b", "\u{e9}", "a\tb", &long] {
            let value = http::HeaderValue::from_bytes(bad.as_bytes()).unwrap();
            let answer = customer.send(request().header("x-account", value).body(body()).unwrap()).await;
            assert_eq!(answer.refusal(), (400, "bad-account".into()), "{method} {path} {bad:?}");
        }
        let raw = http::HeaderValue::from_bytes(b"\xff\xfe").unwrap();
        let answer = customer.send(request().header("x-account", raw).body(body()).unwrap()).await;
        assert_eq!(answer.refusal(), (400, "bad-account".into()), "not UTF-8");
        let twice = request().header("x-account", "ann").header("x-account", "bob");
        let answer = customer.send(twice.body(body()).unwrap()).await;
        assert_eq!(answer.refusal(), (400, "bad-account".into()), "two accounts");
    }
    shop.stop().await;
}

#[tokio::test]
async fn bodies_are_bounded_and_checked() {
    let shop = memory_shop(WIDE).await;
    let customer = Customer::of(&shop);
    let long_no = order(&"x".repeat(65));
    let cases = [
        ("", 400),
        ("{", 400),
        ("[]", 422),
        ("{}", 422),
        (r#"{"order_no":"","sku":"a","amount_cents":1}"#, 400),
        (r#"{"order_no":"a b","sku":"a","amount_cents":1}"#, 400),
        (r#"{"order_no":"a","sku":"","amount_cents":1}"#, 400),
        (r#"{"order_no":"a","sku":"\u0000","amount_cents":1}"#, 400),
        (r#"{"order_no":"a","sku":"a","amount_cents":0}"#, 400),
        (r#"{"order_no":"a","sku":"a","amount_cents":-1}"#, 400),
        (r#"{"order_no":"a","sku":"a","amount_cents":100000001}"#, 400),
        (r#"{"order_no":"a","sku":"a","amount_cents":1e99}"#, 422),
        (r#"{"order_no":"a","sku":"a","amount_cents":1.5}"#, 422),
        (r#"{"order_no":"a","sku":"a","amount_cents":"1"}"#, 422),
        (r#"{"order_no":"a","sku":"a","amount_cents":99999999999999999999999}"#, 422),
        (r#"{"order_no":"a","sku":"a","amount_cents":1,"status":"paid"}"#, 422),
        (r#"{"order_no":"../../x","sku":"a","amount_cents":1}"#, 400),
        (&long_no, 400),
    ];
    for (body, status) in cases {
        assert_eq!(
            customer.post("/orders", Some("ann"), body).await.refusal(),
            (status, "bad-body".into()),
            "{body}"
        );
    }
    let huge = format!("{{\"order_no\":\"{}\"}}", "x".repeat(MAX_BODY));
    let answer = customer.post("/orders", Some("ann"), &huge).await;
    assert_eq!(answer.refusal(), (413, "bad-body".into()));
    let not_utf8 =
        Request::post("/orders").header("x-account", "ann").header("content-type", "application/json");
    let answer = customer.send(not_utf8.body(b"{\"order_no\":\"\xff\"}".to_vec()).unwrap()).await;
    assert_eq!((answer.status, answer.refusal().1), (400, "bad-body".into()), "not UTF-8");
    let no_type = Request::post("/orders").header("x-account", "ann").body(order("a").into_bytes()).unwrap();
    assert_eq!(customer.send(no_type).await.refusal(), (415, "bad-body".into()));
    let refused = shop.shop().tally().refused(Reason::BadBody);
    assert_eq!(refused, cases.len() as u64 + 3, "each is counted once");
    shop.stop().await;
}

#[tokio::test]
async fn paths_and_methods_that_are_none_are_refused_in_the_same_words() {
    let shop = memory_shop(WIDE).await;
    let customer = Customer::of(&shop);
    let long = format!("/seckill/{}", "x".repeat(65));
    for (method, path, expected) in [
        ("GET", "/nothing", (404, "unknown-path")),
        ("DELETE", "/orders", (405, "bad-method")),
        ("POST", "/healthz", (405, "bad-method")),
        ("POST", "/seckill/%20", (400, "bad-name")),
        ("POST", "/seckill/%FF", (400, "bad-name")),
        ("POST", "/seckill/a%0Ab", (400, "bad-name")),
        ("POST", &long, (400, "bad-name")),
        ("GET", "/orders/a%2Fb", (400, "bad-name")),
        ("GET", "/seckill/%C3%A9/stock", (400, "bad-name")),
    ] {
        let request = Request::builder().method(method).uri(path).header("x-account", "ann");
        let answer = customer.send(request.body(Vec::new()).unwrap()).await;
        assert_eq!(answer.refusal(), (expected.0, expected.1.to_owned()), "{method} {path}");
    }
    let plain = customer.get("/seckill/a%2Fb%3F/outcome", Some("ann")).await;
    assert_eq!((plain.status, &plain.json()["state"]), (200, &"none".into()), "a name with signs is a name");
    shop.stop().await;
}

/// Within the time that one click takes to tell the chores, and they to rebuild.
#[tokio::test]
async fn a_sale_that_the_store_has_lost_comes_back_while_the_shop_serves_and_when_it_starts() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(&format!("{WIDE} --stock 5 --shards 2")).await;
    let customer = Customer::of(&shop);
    assert_eq!(customer.click("lantern", "ann").await.status, 202);
    until("it is written", SOON, || async { customer.stock("lantern").await["written"] == 1 }).await;
    place.redis.command(&["FLUSHALL"]).unwrap();
    until("it sells again", SOON, || async {
        let answer = customer.click("lantern", "bob").await;
        assert!([202, 503].contains(&answer.status), "{answer:?}");
        answer.status == 202
    })
    .await;
    assert_eq!(customer.click("lantern", "ann").await.status, 200, "who has one is remembered");
    let drained = || async { customer.stock("lantern").await["written"] == 2 };
    until("both are written", SOON, drained).await;
    assert_eq!(customer.stock("lantern").await["remaining"], 3);
    shop.stop().await;

    place.redis.command(&["FLUSHALL"]).unwrap();
    // On other terms than it was opened on: those of the first day count.
    let next = place.shop(&format!("{WIDE} --stock 9")).await;
    let customer = Customer::of(&next);
    assert_eq!(customer.click("lantern", "cem").await.status, 202);
    let stock = customer.stock("lantern").await;
    assert_eq!((&stock["initial"], &stock["sold"], &stock["remaining"]), (&5.into(), &3.into(), &2.into()));
    next.stop().await;
}

#[tokio::test]
async fn what_nobody_sells_is_not_found_and_leaves_nothing_behind() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop("").await;
    let customer = Customer::of(&shop);
    for _ in 0..3 {
        let stock = customer.get("/seckill/kite/stock", None).await;
        assert_eq!(stock.refusal(), (404, "unknown-sale".into()));
        assert_eq!(customer.click("kite", "ann").await.refusal(), (404, "unknown-sale".into()));
    }
    let keys = place.redis.command(&["KEYS", "*kite*"]).unwrap();
    assert_eq!(keys.as_array().unwrap().len(), 0, "{keys:?}");
    shop.stop().await;
}

#[tokio::test]
async fn what_the_database_says_of_a_failure_is_not_told_to_buyers() {
    let Some(place) = Place::new() else { return };
    let shop = place.shop(WIDE).await;
    let database = lockkeeper_shop::database::Database::open(&place.database()).await.unwrap();
    sqlx::query(
        "CREATE TRIGGER refuse BEFORE INSERT ON tickets BEGIN SELECT RAISE(ABORT, 'inner matters'); END",
    )
    .execute(database.writer())
    .await
    .unwrap();
    let customer = Customer::of(&shop);
    assert_eq!(customer.click("lantern", "ann").await.status, 202);
    let outcome = || customer.get("/seckill/lantern/outcome", Some("ann"));
    until("it is refused", SOON, || async { outcome().await.json()["state"] == "refused" }).await;
    let outcome = outcome().await;
    assert_eq!(outcome.json()["reason"], "The order could not be written. Try again.");
    assert!(!outcome.text.contains("inner"), "{outcome:?}");
    shop.stop().await;
}

#[tokio::test]
async fn a_server_with_a_database_in_memory_is_refused() {
    let Some(place) = Place::new() else { return };
    let line = format!("--listen 127.0.0.1:0 --url {}", place.redis.url());
    let args = lockkeeper_shop::serve::ServeArgs::typed(line.split_whitespace()).unwrap();
    let Err(error) = lockkeeper_shop::serve::start(args).await else { panic!("it started") };
    assert!(error.to_string().contains("--private-database"), "{error:#}");
}
