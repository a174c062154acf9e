//! The page as HTML. Everything in it is escaped by `maud`.

use maud::{DOCTYPE, Markup, html};

use super::live::Numbers;
use crate::sale::{Buyer, MAX_NAME_BYTES, Sku, Ticket};
use crate::web::StockBody;

/// What came of the last click.
pub(super) enum Said {
    Nothing,
    Pending(Ticket),
    Ordered(Ticket),
    Refused(&'static str),
}

impl Said {
    /// For the style: good, waiting or bad.
    fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Pending(_) => "pending",
            Self::Ordered(_) => "ordered",
            Self::Refused(_) => "refused",
        }
    }
}

pub(super) fn page(sku: &Sku, buyer: Option<&Buyer>, numbers: &Numbers, said: &Said) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (sku) " · flash sale" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/page.css";
                script src="/page.js" defer {}
            }
            body data-sku=(sku) {
                main {
                    header {
                        p.kicker { "Flash sale" }
                        h1 { (sku) }
                        p.lead { "One per account. First come, first served, and never more than there is." }
                    }
                    (buy(buyer, said))
                    (stock(&numbers.stock))
                    (refusals(numbers))
                }
            }
        }
    }
}

fn buy(buyer: Option<&Buyer>, said: &Said) -> Markup {
    html! {
        section.card aria-labelledby="buy-title" {
            h2 #buy-title { "Buy one" }
            form #buy method="post" action="/" {
                label for="account" { "Account" }
                div.row {
                    input #account name="account" required maxlength=(MAX_NAME_BYTES) pattern="[!-~]+" autocomplete="username"
                        autocapitalize="off" spellcheck="false" placeholder="your-name"
                        title="Letters, digits and signs, without spaces" value=[buyer.map(Buyer::as_str)];
                    button #click type="submit" { "Buy" }
                }
            }
            p #said role="status" data-kind=(said.kind()) {
                @match said {
                    Said::Nothing => "",
                    Said::Pending(ticket) => { "Yours. Your order is being written. Ticket " code { (ticket) } },
                    Said::Ordered(ticket) => { "Yours, and ordered. Ticket " code { (ticket) } },
                    Said::Refused(why) => (why),
                }
            }
        }
    }
}

fn stock(stock: &StockBody) -> Markup {
    let left = u64::try_from(stock.remaining).unwrap_or_default();
    let shown = [
        ("sold", "Sold", stock.sold),
        ("written", "Orders written", stock.written),
        ("queued", "Orders under way", stock.queued),
    ];
    html! {
        section.card aria-labelledby="stock-title" {
            h2 #stock-title { "Stock" }
            div.gauge {
                progress #gauge max=(stock.initial.max(1)) value=(left) aria-label="Units left" {}
                p { span #left { (left) } " of " span #initial { (stock.initial) } " left" }
            }
            dl.figures {
                @for (id, name, value) in shown {
                    div { dt { (name) } dd id=(id) { (value) } }
                }
            }
        }
    }
}

fn refusals(numbers: &Numbers) -> Markup {
    html! {
        section.card aria-labelledby="answers-title" {
            h2 #answers-title { "Answers of this server" }
            table {
                thead { tr { th scope="col" { "Answer" } th.number scope="col" { "Count" } } }
                tbody #answers {
                    tr.good { td { "Bought" } td.number { (numbers.accepted) } }
                    tr.good { td { "Had one already, shown again" } td.number { (numbers.repeated) } }
                    @for refused in numbers.refusals.values() {
                        tr { td { (refused.title) } td.number { (refused.count) } }
                    }
                }
            }
        }
    }
}
