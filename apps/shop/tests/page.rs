//! The page in a real browser: a purchase, a double click, and sold out; and without its script.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod browser;
mod shopping;

use browser::Browser;
use http::Request;
use lockkeeper_shop::serve::Running;
use serde_json::json;
use shopping::{Customer, WIDE, memory_shop};

/// A shop on a runtime of its own: the browser is driven by hand.
fn shop(more: &str) -> (tokio::runtime::Runtime, Running) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let shop = runtime.block_on(memory_shop(more));
    (runtime, shop)
}

const ORDERED: &str = "document.querySelector('#said').dataset.kind === 'ordered'";
const REFUSED: &str = "document.querySelector('#said').dataset.kind === 'refused'";

#[test]
fn a_purchase_a_double_click_and_sold_out() {
    let Some(mut browser) = Browser::start() else { return };
    let (runtime, shop) = shop(&format!("{WIDE} --stock 2"));
    browser.open(&format!("http://{}/", shop.address()));
    assert_eq!((browser.text("h1"), browser.text("#left")), ("lantern".into(), "2".into()));

    browser.type_into("#account", "ann");
    browser.click("#click", 1);
    browser.until("ann has one", ORDERED);
    let said = browser.text("#said");
    let ticket = browser.text("#said code");
    assert!(said.starts_with("Yours, and ordered.") && ticket.len() > 10, "{said}");
    browser.until("the numbers follow", "document.querySelector('#left').textContent === '1'");

    browser.type_into("#account", "bob");
    browser.click("#click", 2);
    browser.until("bob has one", ORDERED);
    assert_ne!(browser.text("#said code"), ticket);
    browser.until("one was sold", "document.querySelector('#sold').textContent === '2'");
    assert_eq!(
        (shop.shop().tally().accepted(), shop.shop().tally().repeated()),
        (2, 1),
        "one for both clicks"
    );

    browser.type_into("#account", "cem");
    browser.click("#click", 1);
    browser.until("cem is refused", REFUSED);
    assert_eq!(browser.text("#said"), "Sold out.");
    browser.until(
        "the refusal is counted",
        "/Sold out\\s*1/.test(document.querySelector('#answers').innerText)",
    );
    assert_eq!(browser.eval("document.querySelector('#gauge').value"), 0);
    runtime.block_on(shop.stop());
}

#[test]
fn without_its_script_it_works_by_reloading() {
    let Some(mut browser) = Browser::start() else { return };
    let (runtime, shop) = shop(&format!("{WIDE} --stock 1"));
    browser.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.open(&format!("http://{}/", shop.address()));
    browser.type_into("#account", "ann");
    browser.click("#click", 1);
    browser.until("ann has one", "/^Yours/.test(document.querySelector('#said').textContent)");
    assert_eq!(browser.eval("location.search"), "?account=ann");
    assert_eq!(browser.text("#left"), "0");
    browser.type_into("#account", "bob");
    browser.click("#click", 1);
    browser.until("bob is refused", REFUSED);
    assert_eq!(browser.text("#said"), "Sold out");
    runtime.block_on(shop.stop());
}

#[tokio::test]
async fn what_strangers_send_is_escaped_or_not_shown() {
    let shop = memory_shop(&format!("{WIDE} --sku <b>\"&'</b>")).await;
    let customer = Customer::of(&shop);
    let query = "/?account=%3Cscript%3Ealert(1)%3C/script%3E&said=%3Cscript%3Ex%3C/script%3E";
    let page = customer.get(query, None).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{}", page.text);
    assert!(!page.text.contains("<script>") && !page.text.contains("<b>"), "{}", page.text);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for hostile in ["/?account=%FF", "/?said=%FF&account", "/?account=a%00b"] {
        assert_eq!(customer.get(hostile, None).await.status, 200, "{hostile}");
    }
    let form = |body: &str| {
        let request = Request::post("/").header("content-type", "application/x-www-form-urlencoded");
        customer.send(request.body(body.as_bytes().to_vec()).unwrap())
    };
    for bad in ["", "account=", "account=a%20b", "account=%FF", "x=y", &"x".repeat(10_000)] {
        let answer = form(bad).await;
        assert_eq!(
            (answer.status, &answer.headers["location"]),
            (303, &"/?said=bad-account".parse().unwrap()),
            "{bad}"
        );
    }
    assert_eq!(
        form("account=%26%3F%3D%0D").await.headers["location"],
        "/?account=%26%3F%3D",
        "nothing of it splits"
    );
    shop.stop().await;
}

/// Whatever stands in front says who it is.
#[tokio::test]
async fn where_the_header_says_who_asks_the_page_believes_nothing_else() {
    let shop = memory_shop(WIDE).await;
    let customer = Customer::of(&shop);
    assert_eq!(customer.click("lantern", "ann").await.status, 202);
    let page = |path: &'static str| customer.get(path, Some("bob"));
    let other = page("/?account=ann").await;
    assert!(!other.text.contains("Yours") && other.text.contains("This is no account"), "{}", other.text);
    assert!(page("/").await.text.contains("value=\"bob\""));
    assert!(customer.get("/", Some("ann")).await.text.contains("Yours"));
    let buy = |body: &str| {
        let request = Request::post("/").header("content-type", "application/x-www-form-urlencoded");
        customer.send(request.header("x-account", "bob").body(body.as_bytes().to_vec()).unwrap())
    };
    assert_eq!(buy("account=cem").await.headers["location"], "/?said=bad-account");
    assert_eq!(buy("account=bob").await.headers["location"], "/?account=bob");
    assert_eq!(shop.shop().tally().accepted(), 2, "ann and bob");
    shop.stop().await;
}
