//! What can be typed.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use lockkeeper::Limit;

use crate::config::{BUYER_LIMIT, Limits, ORDER_LIMIT, SALE_LIMIT};
use crate::database::is_private;
use crate::orders::CHARGE_WITHIN;
use crate::sale::{MAX_SHARDS, MAX_UNITS, Sku};

/// With a slower provider no order would ever be paid.
const MAX_PAYMENT_DELAY_MS: u64 = CHARGE_WITHIN.as_millis() as u64 * 3 / 4;

/// A small shop (orders and a flash sale) on Lockkeeper.
#[derive(Debug, Parser)]
#[command(name = "lockkeeper-shop", version)]
pub struct ShopArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ShopCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum ShopCommand {
    /// Serve the shop over HTTP, until Ctrl-C or SIGTERM.
    ///
    /// Several processes on one Redis and one database are one shop. Open http://127.0.0.1:8080/ to look at it.
    Serve(ServeArgs),
}

/// How to serve.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Where to listen; port 0 takes a free one, and says which.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// The store: a Redis URL, or memory:// for one process alone.
    #[arg(
        long,
        value_name = "URL",
        env = "LOCKKEEPER_URL",
        default_value = "memory://",
        hide_env_values = true
    )]
    pub url: String,

    /// The database: sqlite::memory:, sqlite://FILE?mode=rwc, or postgres://….
    #[arg(
        long,
        value_name = "URL",
        env = "LOCKKEEPER_DATABASE",
        default_value = "sqlite::memory:",
        hide_env_values = true
    )]
    pub database: String,

    /// What is on sale.
    #[arg(long, value_name = "NAME", default_value = "lantern")]
    pub sku: Sku,

    /// How many of it.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_UNITS)))]
    pub stock: u32,

    /// Into how many parts the stock is split on the store.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_SHARDS)))]
    pub shards: u8,

    /// When the sale opens, in seconds since 1970 by the store's clock [default: today at 0:00 UTC].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=253_402_300_799))]
    pub opens_at: Option<u64>,

    /// For how many hours it is open.
    #[arg(long, value_name = "HOURS", default_value_t = 7 * 24, value_parser = clap::value_parser!(u32).range(1..=366 * 24))]
    pub open_for: u32,

    /// Sell by looking first and acting later. It sells too much, as `lockkeeper demo` shows.
    #[arg(long)]
    pub naive: bool,

    /// Let the database be in memory although the store is not: then each process has a shop's books of its own, and they
    /// end with it.
    #[arg(long)]
    pub private_database: bool,

    /// Write no orders of the flash sale in this process.
    #[arg(long, overrides_with = "worker")]
    pub no_worker: bool,

    /// Write orders of the flash sale in this process; so it is unless --no-worker is given.
    #[arg(long, overrides_with = "no_worker")]
    pub worker: bool,

    /// The limit on the sale, over all buyers.
    #[arg(long, value_name = "LIMIT", default_value = SALE_LIMIT)]
    pub sale_limit: Limit,

    /// The limit on one buyer in the sale.
    #[arg(long, value_name = "LIMIT", default_value = BUYER_LIMIT)]
    pub buyer_limit: Limit,

    /// The limit on the orders of one account.
    #[arg(long, value_name = "LIMIT", default_value = ORDER_LIMIT)]
    pub order_limit: Limit,

    /// After how many seconds an order that is not paid is refused.
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..=30 * 24 * 3600))]
    pub pay_within: u64,

    /// How long the payment provider, which takes no real money, takes: at most 1500, for the shop waits 2000.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_PAYMENT_DELAY_MS))]
    pub payment_delay: u64,
}

impl ServeArgs {
    /// From words as they would be typed after `serve`.
    ///
    /// # Errors
    /// They would not be understood.
    pub fn typed<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, clap::Error> {
        let ShopArgs { command: ShopCommand::Serve(args) } =
            ShopArgs::try_parse_from(["lockkeeper-shop", "serve"].into_iter().chain(words))?;
        Ok(args)
    }

    /// # Errors
    /// Several processes would share the store, and each would have a database of its own.
    pub(super) fn check(&self) -> Result<()> {
        if !self.private_database && is_private(&self.database) && !self.url.starts_with("memory:") {
            bail!(
                "the store is a server, and the database is in memory: say where the database is (--database), or \
                 --private-database if this process is to be alone with it"
            );
        }
        Ok(())
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { sale: self.sale_limit, buyer: self.buyer_limit, orders: self.order_limit }
    }

    pub(super) fn pay_within(&self) -> Duration {
        Duration::from_secs(self.pay_within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limits_are_the_standard_ones() {
        assert_eq!(ServeArgs::typed([]).unwrap().limits(), Limits::standard().unwrap());
    }

    #[test]
    fn a_server_and_a_database_in_memory_are_refused_unless_that_was_asked_for() {
        let is_good = |line: &str| ServeArgs::typed(line.split_whitespace()).unwrap().check().is_ok();
        let redis = "--url redis://127.0.0.1:1 --database";
        for private in ["sqlite::memory:", "sqlite://x?mode=memory"] {
            assert!(!is_good(&format!("{redis} {private}")), "{private}");
            assert!(is_good(&format!("{redis} {private} --private-database")), "{private}");
            assert!(is_good(&format!("--url memory:// --database {private}")), "{private}");
        }
        assert!(is_good(&format!("{redis} sqlite://shop.db?mode=rwc")));
    }

    #[test]
    fn the_last_of_worker_and_no_worker_counts() {
        let no_worker = |line: &str| ServeArgs::typed(line.split_whitespace()).unwrap().no_worker;
        assert!(!no_worker("") && no_worker("--no-worker") && no_worker("--worker --no-worker"));
        assert!(!no_worker("--no-worker --worker"));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        for bad in [
            "--payment-delay=2000",
            "--stock=0",
            "--stock=-1",
            "--shards=65",
            "--sku=",
            "--sku=é",
            "--listen=here",
            "--sale-limit=1",
        ] {
            assert!(ServeArgs::typed([bad]).is_err(), "{bad}");
        }
    }
}
