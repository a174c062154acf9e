//! Where libfaketime lies, what a process needs to run under it, and what it leaves behind.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARY: &str = "faketime/libfaketime.so.1";
/// The C library, by the name that the loader knows; where there is none of that name it goes on without.
const C_LIBRARY: &str = "libc.so.6";

/// The preload library, if it is installed.
pub(crate) fn find_library() -> Option<PathBuf> {
    if let Some(path) = env::var_os("LOCKKEEPER_LIBFAKETIME").filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(path)).filter(|path| path.is_file());
    }
    let mut found: Vec<PathBuf> = candidates().into_iter().filter(|path| path.is_file()).collect();
    // Several architectures may be installed side by side: this one comes first.
    found.sort_by_key(|path| !path.to_string_lossy().contains(env::consts::ARCH));
    found.into_iter().next()
}

fn candidates() -> Vec<PathBuf> {
    let mut paths = vec![Path::new("/usr/lib").join(LIBRARY), Path::new("/usr/lib64").join(LIBRARY)];
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    paths.extend(folders.map(|folder| folder.path().join(LIBRARY)));
    paths
}

/// Makes a process read its wall clock from a file that holds seconds since the epoch with a fraction.
///
/// The C library comes before all others, so that memory is its own: an allocator in a shared library (Debian's
/// `redis-server` has jemalloc as one) asks for the time before this library can tell it.
pub(crate) fn preload(command: &mut Command, library: &Path, time_file: &Path) {
    let mut first = library.as_os_str().to_owned();
    first.push(":");
    first.push(C_LIBRARY);
    command
        .env("LD_PRELOAD", first)
        .env("FAKETIME_TIMESTAMP_FILE", time_file)
        .env("FAKETIME_FMT", "%s")
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("TZ", "UTC")
        .env_remove("FAKETIME")
        .env_remove("FAKETIME_SHARED");
}

/// Removes the shared memory that the library makes for a process and that a killed process leaves.
pub(crate) fn sweep(pid: u32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        // Where it does not exist there is nothing to do.
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}
