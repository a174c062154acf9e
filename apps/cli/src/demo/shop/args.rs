//! What can be typed.

use std::net::SocketAddr;

use lockkeeper_shop::sale::MAX_UNITS;

const PAGE: &str = "127.0.0.1:8080";

/// Options of the flash sale.
#[derive(Debug, clap::Args)]
pub(in crate::demo) struct SaleArgs {
    /// How many buyers come, all at once.
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) buyers: u32,

    /// How many units there are.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_UNITS)))]
    pub(super) stock: u32,

    /// How many shop processes, with a server's URL.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=16))]
    pub(super) processes: u32,

    /// Use the server that LOCKKEEPER_URL or REDIS_URL names.
    #[arg(long)]
    pub(super) env_url: bool,

    /// Where orders are written: postgres://…, or sqlite://FILE?mode=rwc [default: a database of the demo's own].
    #[arg(long, value_name = "URL")]
    pub(super) database: Option<String>,

    /// Keep the shop's page open when the demo is over, at this address; Ctrl-C ends it.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = PAGE)]
    pub(super) serve: Option<SocketAddr>,
}
