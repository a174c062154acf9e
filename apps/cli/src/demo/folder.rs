//! A folder of our own among the temporary ones, removed in the end.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

pub(super) struct Folder(PathBuf);

impl Folder {
    /// Fails when it exists: then it is somebody else's.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let path = env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
