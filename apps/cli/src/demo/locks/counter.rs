//! The counter that all workers share, without any protection of its own.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that can be read and written, but not added to.
#[derive(Clone, Debug)]
pub(super) enum Counter {
    /// Inside this process.
    Memory(Arc<AtomicU64>),
    /// A file of eight bytes, little-endian, that other processes use as well.
    File(PathBuf),
}

impl Counter {
    pub(super) fn in_memory() -> Self {
        Self::Memory(Arc::default())
    }

    /// Makes the file, at zero.
    pub(super) fn in_file(path: PathBuf) -> io::Result<Self> {
        fs::write(&path, 0u64.to_le_bytes())?;
        Ok(Self::File(path))
    }

    pub(super) fn read(&self) -> io::Result<u64> {
        match self {
            Self::Memory(number) => Ok(number.load(Ordering::Relaxed)),
            Self::File(path) => {
                let mut bytes = [0; 8];
                io::Read::read_exact(&mut fs::File::open(path)?, &mut bytes)?;
                Ok(u64::from_le_bytes(bytes))
            }
        }
    }

    pub(super) fn write(&self, value: u64) -> io::Result<()> {
        match self {
            Self::Memory(number) => number.store(value, Ordering::Relaxed),
            Self::File(path) => {
                // Over the old bytes: a file that is cut first would be empty for a moment.
                let mut file = fs::OpenOptions::new().write(true).open(path)?;
                io::Write::write_all(&mut file, &value.to_le_bytes())?;
            }
        }
        Ok(())
    }
}
