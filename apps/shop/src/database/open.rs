//! Opening a database by its URL, and bringing its tables up to date.

use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::migrate::Migrator;
use sqlx::{AnyPool, Executor};

use super::error::DatabaseError;
use super::migrations::Embedded;

/// How long a statement waits for another process that writes into the same SQLite file.
const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a caller waits for a connection of the pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections to PostgreSQL, or readers of one SQLite file.
const MAX_CONNECTIONS: u32 = 8;
/// Two processes that start at once on one SQLite file may both try to make the tables.
const MIGRATION_ATTEMPTS: u32 = 5;
const MIGRATION_PAUSE: Duration = Duration::from_millis(100);

/// The shop's database. Cheap to clone; clones share the connections.
///
/// SQLite has one connection that writes, and others that read. PostgreSQL has one pool for both.
#[derive(Clone, Debug)]
pub struct Database {
    reader: AnyPool,
    writer: AnyPool,
}

impl Database {
    /// Connects and brings the tables up to date: `sqlite::memory:`, `sqlite://path?mode=rwc` or `postgres://…`.
    ///
    /// # Errors
    /// The URL names no such database, it cannot be reached, or its tables were made by a newer version.
    ///
    /// # Cancel safety
    /// Each migration is one transaction; the next call goes on where this one stopped.
    pub async fn open(url: &str) -> Result<Self, DatabaseError> {
        sqlx::any::install_default_drivers();
        let is_sqlite = url.starts_with("sqlite:");
        let writer = pool(url, if is_sqlite { 1 } else { MAX_CONNECTIONS }).await?;
        // A database in memory belongs to its connection.
        let reader = match is_sqlite && !is_private(url) {
            true => pool(url, MAX_CONNECTIONS).await?,
            false => writer.clone(),
        };
        migrate(&writer).await?;
        Ok(Self { reader, writer })
    }

    /// For statements that only read. On SQLite in memory this is the one connection there is: never ask for it while
    /// holding another.
    pub fn reader(&self) -> &AnyPool {
        &self.reader
    }

    /// For statements and transactions that write. A transaction begins with its first write, so that it never has to
    /// turn from a reader into a writer, which SQLite refuses at once.
    pub fn writer(&self) -> &AnyPool {
        &self.writer
    }

    /// Closes all connections, when what uses them has ended.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// It belongs to one process, and ends with it.
pub(crate) fn is_private(url: &str) -> bool {
    url.contains(":memory:") || url.contains("mode=memory")
}

async fn pool(url: &str, connections: u32) -> Result<AnyPool, DatabaseError> {
    let is_sqlite = url.starts_with("sqlite:");
    let options = AnyPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_TIMEOUT);
    // A database in memory would go with its connection.
    let options = match is_sqlite {
        true => options.min_connections(1).idle_timeout(None).max_lifetime(None),
        false => options,
    };
    let pool = options.after_connect(move |connection, _| {
        Box::pin(async move {
            if is_sqlite {
                let busy = SQLITE_BUSY_TIMEOUT.as_millis();
                let pragmas = format!(
                    "PRAGMA busy_timeout = {busy}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"
                );
                connection.execute(pragmas.as_str()).await?;
            }
            Ok(())
        })
    });
    Ok(pool.connect(url).await?)
}

async fn migrate(pool: &AnyPool) -> Result<(), DatabaseError> {
    let migrator = Migrator::new(Embedded).await.map_err(sqlx::Error::from)?;
    let mut attempt = 1;
    loop {
        match migrator.run(pool).await {
            Ok(()) => return Ok(()),
            Err(_) if attempt < MIGRATION_ATTEMPTS => {
                attempt += 1;
                tokio::time::sleep(MIGRATION_PAUSE).await;
            }
            Err(error) => return Err(sqlx::Error::from(error).into()),
        }
    }
}
