//! What both acts stand on: where the store and the database are, and whose the database is.

use anyhow::Context as _;
use lockkeeper_shop::sale::{Mode, Sku};
use lockkeeper_shop::serve::ServeArgs;
use tempfile::TempDir;

use super::args::SaleArgs;
use super::unique;
use crate::common::Common;
use crate::exit::Failure;

/// What nobody reaches: the naive shop has no limits.
const NO_LIMIT: &str = "1000000000/s";
/// The shop lets 20 per second in; here the crowd is not to be waited for so long.
const PER_SECOND: u32 = 1000;

/// The stage.
#[derive(Debug)]
pub(super) struct Stage {
    /// For people, without credentials.
    pub(super) store: String,
    /// How many processes serve; zero for none but this one.
    pub(super) processes: u32,
    pub(super) buyers: u32,
    pub(super) stock: u32,
    serve: Option<std::net::SocketAddr>,
    url: String,
    database: String,
    run: String,
    /// The folder of a database of the demo's own; goes with it.
    _folder: Option<TempDir>,
}

impl Stage {
    /// Finds out where everything is, and that the server answers.
    pub(super) async fn set(args: &SaleArgs, common: &Common) -> anyhow::Result<Self> {
        if common.has_certificate() {
            return Err(Failure::usage(
                "the demo takes no --ca, --cert or --key: its processes would not know of them",
            )
            .into());
        }
        if let Some(address) = args.serve {
            // Before anything is played.
            let taken = |error| Failure::usage(format!("--serve {address}: {error}"));
            std::net::TcpListener::bind(address).map_err(taken)?;
        }
        let url = super::super::store_url(args.env_url, common)?;
        let is_embedded = url.starts_with("memory:");
        if !is_embedded && args.database.as_deref().is_some_and(|url| url.contains(":memory:")) {
            let why = "a database in memory is one process's own: give a file (sqlite://FILE?mode=rwc) or postgres://…";
            return Err(Failure::usage(format!("--database: {why}")).into());
        }
        let store = if is_embedded { url.clone() } else { address(common).await? };
        let (database, folder) = match &args.database {
            Some(database) => (database.clone(), None),
            None => own_database()?,
        };
        Ok(Self {
            store,
            processes: if is_embedded { 0 } else { args.processes },
            buyers: args.buyers,
            stock: args.stock,
            serve: args.serve,
            url,
            database,
            run: unique(),
            _folder: folder,
        })
    }

    /// What the sale of a mode is called.
    pub(super) fn sku(&self, mode: Mode) -> anyhow::Result<Sku> {
        let word = if mode == Mode::Naive { "naive" } else { "lantern" };
        Ok(format!("{word}-{}", self.run).parse()?)
    }

    /// How a process of the shop is set, apart from the worker.
    pub(super) fn serve_args(&self, mode: Mode) -> anyhow::Result<ServeArgs> {
        let mut line =
            format!("--listen 127.0.0.1:0 --sku {} --stock {}", self.sku(mode)?.as_str(), self.stock);
        if mode == Mode::Naive {
            line += " --naive";
        }
        let mut args = ServeArgs::typed(line.split_whitespace())?;
        if mode == Mode::Naive {
            (args.sale_limit, args.buyer_limit) = (NO_LIMIT.parse()?, NO_LIMIT.parse()?);
        } else {
            args.sale_limit = format!("{}/s burst=100", PER_SECOND.max(self.stock)).parse()?;
        }
        args.url.clone_from(&self.url);
        args.database.clone_from(&self.database);
        if let (Mode::Protected, Some(address)) = (mode, self.serve) {
            args.listen = address;
        }
        Ok(args)
    }

    /// Which database, for people.
    pub(super) fn database_kind(&self) -> String {
        let kind = if self.database.starts_with("postgres") { "PostgreSQL" } else { "SQLite" };
        kind.to_owned()
    }
}

/// Says in one line what is wrong with the URL or the server, before several processes do.
async fn address(common: &Common) -> anyhow::Result<String> {
    let keeper = common.builder()?.connect().await?;
    let address = keeper.health().await.address;
    keeper.close(std::time::Duration::ZERO).await;
    Ok(address)
}

fn own_database() -> anyhow::Result<(String, Option<TempDir>)> {
    let folder = tempfile::Builder::new().prefix("lockkeeper-demo-").tempdir();
    let folder = folder.context("making a folder for the database")?;
    let file = folder.path().join("shop.sqlite");
    Ok((format!("sqlite://{}?mode=rwc", file.display()), Some(folder)))
}
