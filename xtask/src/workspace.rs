//! Where things are: the workspace's root, its target directory, the servers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::call::Call;

/// The directories the chores work in.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Every command runs here.
    pub(crate) root: PathBuf,
    /// The target directory that cargo really uses.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Asks cargo, because a target directory can be set in many places.
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in no workspace")?;
        let metadata = Call::cargo("metadata --format-version 1 --no-deps").output(root);
        let metadata = metadata.context("`cargo metadata` failed")?;
        let target = string_field(&metadata, "target_directory").context("no target directory")?;
        Ok(Self { root: root.to_owned(), target: target.into() })
    }

    /// Where provisioned servers are kept, and where the tests look for them.
    pub(crate) fn servers(&self) -> PathBuf {
        self.target.join("servers")
    }

    /// Where the lock libraries of other languages are kept, and where the tests look for them.
    pub(crate) fn interop(&self) -> PathBuf {
        self.target.join("interop")
    }
}

/// The value of the last `"name":"value"` in compact JSON. It is all the JSON
/// we read, and no reason for a parser among the dependencies.
fn string_field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.rsplit_once(&format!("\"{name}\":\""))?;
    let mut value = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return Some(value),
            '\\' => value.push(chars.next()?),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_and_its_backslashes_are_undone() {
        let json = r#"{"a":"x","target_directory":"C:\\work\\target","version":1}"#;
        assert_eq!(string_field(json, "target_directory").as_deref(), Some(r"C:\work\target"));
    }

    #[test]
    fn a_field_that_is_missing_or_cut_off_is_none() {
        assert_eq!(string_field("{}", "target_directory"), None);
        assert_eq!(string_field(r#"{"target_directory":"/tm"#, "target_directory"), None);
    }
}
