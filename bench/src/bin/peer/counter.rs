//! The counter that nothing but the lock protects: eight bytes of a file, shared by all processes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result};

pub(crate) struct Counter(File);

impl Counter {
    pub(crate) fn open(path: &str) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Self(file.with_context(|| format!("the counter file {path}"))?))
    }

    pub(crate) fn read(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 0).context("reading the counter")?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn write(&self, value: u64) -> Result<()> {
        self.0.write_all_at(&value.to_le_bytes(), 0).context("writing the counter")
    }
}
